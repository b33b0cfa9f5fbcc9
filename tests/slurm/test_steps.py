"""Steps that run, and steps that are ended: what real Slurm and a pool say of them."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

import pytest

from moiety.testing.waiting import until
from tests.slurm.side import WAITED, Side, ended
from tests.slurm.test_orders import ended_there, said
from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import Oracle

TWO: Final = """#!/bin/bash
#SBATCH -o log -n 2 --mem=500M
srun -J first -n1 --overlap --mem=10M bash -c 'echo >first; sleep 600' &
until [ -e first ]; do sleep 0.05; done
srun -J second -n2 --overlap --mem=10M bash -c 'echo >second.$SLURM_PROCID; exec sleep 600' &
wait %1
echo "first: $?"
wait %2
echo "second: $?"
"""
COLUMNS: Final = ("-h", "-o", "%i|%j|%P|%u|%N|%A|%l|%U")
KILLED: Final = """#!/bin/bash
#SBATCH -o log -n 2 --mem=500M
export END='%s'
srun %s bash -c 'if [ $SLURM_PROCID = 1 ]; then
    until [ -e up ]; do sleep 0.05; done; eval "$END"
  fi; echo >up; read <over; echo over'
echo "ended: $?"
"""
ONE_EACH: Final = """#!/bin/bash
#SBATCH -o log -n 2 --gres=gpu:2 --mem=500M
for i in 1 2; do
  srun --exact -n1 --gpus=1 --mem=10M bash -c 'echo $CUDA_VISIBLE_DEVICES >gpu.'$i'
    until [ -e gpu.1 -a -e gpu.2 ]; do sleep 0.05; done' &
done
wait
sort -u gpu.1 gpu.2 | wc -l
"""
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+")


NODES: Final = "slurmstepd-"
"""How lines of the node begin. Real Slurm loses some of them, or writes them twice."""


def log_of(side: Side, number: str) -> list[str]:
    """The lines of a log, sorted: who writes first is a matter of chance."""
    text = WAITED.sub("", (side.folder / "log").read_text())
    text = TIME.sub("TIME", text.replace(f" {number}.", " JOB.").replace(f"={number}.", "=JOB."))
    # Whether two that end at about the same time are told together is a matter of chance, too.
    text = re.sub(r"^(.*)tasks 0-1: (.*)$", r"\1task 0: \2\n\1task 1: \2", text, flags=re.MULTILINE)
    return sorted(text.splitlines())


def are_alike(theirs: list[str], ours: list[str]) -> None:
    """Fail unless two logs say the same; what real Slurm's node says is said here, too."""
    assert [line for line in ours if not line.startswith(NODES)] == [
        line for line in theirs if not line.startswith(NODES)
    ]
    assert {line for line in theirs if line.startswith(NODES)} <= set(ours)


def two_steps(side: Side) -> str:
    """Submit a job with two steps; its number when both run."""
    number = side.submit(TWO)
    until((side.folder / "second.1").exists, "its steps run")
    until(lambda: len(said(side, "squeue", "-s", "-h", "-j", number).splitlines()) == 3, "known")
    return number


def test_steps_that_run_are_listed_alike(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side
) -> None:
    found = []
    for side in (theirs, ours):
        number = two_steps(side)
        asked = [
            said(side, "squeue", "-s", "-j", number, *COLUMNS),
            said(side, "squeue", *COLUMNS, "-s", f"{number}.1"),
            said(side, "squeue", f"--steps={number}.0,{number}.1", *COLUMNS),
            said(side, "squeue", "-s", "-h", "-j", number, "-O", "stepid,stepname:9,stepstate"),
            said(side, "squeue", "-s", f"{number}.7"),
        ]
        shown = said(side, "scontrol", "show", "step", f"{number}.1").splitlines()
        asked += [TIME.sub("TIME", line) for line in shown if "TRES=" not in line]
        asked[-1] = re.sub(r"\d+$", "PID", asked[-1])
        found.append([line.replace(f"{number}.", "JOB.") for line in asked])
        said(side, "scancel", number)
        ended_there(oracle, pool, side is theirs, number)
    assert [re.sub(r" +", " ", line) for line in found[1]] == [
        re.sub(r" +", " ", line) for line in found[0]
    ]


@pytest.mark.parametrize("option", ["", "TERM", "KILL", "STOP"])
def test_one_step_is_ended_alike(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, option: str
) -> None:
    found = []
    for side in (theirs, ours):
        number = two_steps(side)
        said(side, "scancel", *(["-s", option] if option else []), f"{number}.1")
        if option == "STOP":
            assert len(said(side, "squeue", "-s", "-h", "-j", number).splitlines()) == 3
            said(side, "scancel", "-s", "CONT", f"{number}.1")
            said(side, "scancel", f"{number}.1")
        listed = ("squeue", "-s", "-h", "-j", number, "-o", "%j")
        until(lambda: said(side, *listed).split() == ["first", "batch"], "one is over")  # noqa: B023
        said(side, "scancel", f"{number}.0")
        ended_there(oracle, pool, side is theirs, number)
        found.append(log_of(side, number))
    are_alike(*found)


@pytest.mark.parametrize("options", ["", "-K", "-K -Q"])
@pytest.mark.parametrize("end", ["kill -KILL $$", "kill -TERM $$", "kill -SEGV $$", "exit 3"])
def test_a_process_that_fails_is_told_alike(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, options: str, end: str
) -> None:
    script = KILLED % (end, options)
    for side in (theirs, ours):
        (side.folder / "log").touch()
        os.mkfifo(side.folder / "over")
    numbers = theirs.submit(script), ours.submit(script)
    for side in (theirs, ours):
        until(lambda: "task 1: " in (side.folder / "log").read_text(), "it is told")  # noqa: B023
        if not options:
            (side.folder / "over").write_text("\n")
    their_end, our_end = ended(oracle, pool, *numbers)
    assert our_end == their_end
    are_alike(log_of(theirs, numbers[0]), log_of(ours, numbers[1]))


def test_steps_that_are_not_there_are_refused_alike(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side
) -> None:
    del oracle, pool
    found = []
    for side in (theirs, ours):
        done = [
            subprocess.run(
                words, cwd=side.folder, env=side.env, capture_output=True, text=True, timeout=60
            )
            for words in (
                ("scancel", "999999.0"),
                ("scontrol", "show", "step", "999999.0"),
                ("squeue", "-s", "999999"),
                ("squeue", "-s", "-h", "999999.0"),
                ("scontrol", "show", "steps"),
            )
        ]
        found.append([(each.returncode, each.stdout, each.stderr) for each in done])
    assert found[1] == found[0]


def test_steps_beside_each_other_have_a_gpu_each(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side
) -> None:
    there, here = theirs.submit(ONE_EACH), ours.submit(ONE_EACH)
    assert ended(oracle, pool, there, here)[0] == "COMPLETED 0:0"
    for side in (theirs, ours):
        assert (side.folder / "log").read_text().splitlines()[-1] == "2"
