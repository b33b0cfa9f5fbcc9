"""Dependencies, begin times, signals and files, in real Slurm and in a pool."""

from __future__ import annotations

import subprocess
import time
from typing import Final

import pytest

from moiety.testing.waiting import until
from tests.slurm.side import Side, ended
from tests.support.pool_node import PoolNode
from tests.support.slurm_oracle import Oracle

NEVER: Final = "DependencyNeverSatisfied"
GATE: Final = "until [ -e go ]; do sleep 0.05; done\n"
"""A job that waits for the test."""


def said(side: Side, *words: str) -> str:
    """What one of Slurm's commands prints there."""
    done = subprocess.run(
        words, cwd=side.folder, env=side.env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def state(side: Side, number: str) -> str:
    """State and reason of a job that is not over; empty once it is."""
    return said(side, "squeue", "-h", "-o", "%T %r", "--job", number)


@pytest.mark.parametrize("code", [0, 3])
def test_dependencies_are_met_alike(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, code: int
) -> None:
    never = {0: "afternotok", 3: "afterok"}[code]
    found = []
    for side in (theirs, ours):
        first = side.submit(f"#!/bin/bash\n{GATE}echo first >>order; exit {code}\n")
        numbers = {
            kind: side.submit(
                f"#!/bin/bash\n#SBATCH --dependency={kind}:{first}\necho {kind} >>order\n"
            )
            for kind in ("afterok", "afternotok", "afterany", "after")
        }
        waits = state(side, numbers["afterany"])
        (side.folder / "go").touch()
        for kind, number in numbers.items():
            if kind != never:
                ended_there(oracle, pool, side is theirs, number)
        until(lambda: NEVER in state(side, numbers[never]), "it is never met")  # noqa: B023
        lines = (side.folder / "order").read_text().split()
        lines.remove("after")  # it may begin with the first
        found.append((waits, lines[0], sorted(lines), state(side, numbers[never])))
        said(side, "scancel", numbers[never])
    assert found[1] == found[0]


def ended_there(oracle: Oracle, pool: PoolNode, is_theirs: bool, number: str) -> None:
    """Wait until a job is over."""
    if is_theirs:
        oracle.ended([number])
    else:
        pool.ended(int(number))


def test_jobs_of_one_name_come_one_after_the_other(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side
) -> None:
    own = "date +%s%N >>times; sleep 0.2; date +%s%N >>times"
    script = f"#!/bin/bash\n#SBATCH -J one --dependency=singleton\n{GATE}{own}\n"
    for side in (theirs, ours):
        numbers = [side.submit(script) for _ in range(2)]
        assert state(side, numbers[1]) == "PENDING Dependency"
        (side.folder / "go").touch()
        for number in numbers:
            ended_there(oracle, pool, side is theirs, number)
        times = list(map(int, (side.folder / "times").read_text().split()))
        assert len(times) == 4
        assert times == sorted(times), "the second begins when the first has ended"


def test_a_job_begins_no_sooner_than_it_is_to(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side
) -> None:
    script = "#!/bin/bash\n#SBATCH --begin=now+{}\ndate +%s.%N >began\n"
    for side in (theirs, ours):
        later = side.submit(script.format(3600))
        assert state(side, later) == "PENDING BeginTime"
        said(side, "scancel", later)
        at_s = time.time()
        number = side.submit(script.format(3))
        ended_there(oracle, pool, side is theirs, number)
        assert float((side.folder / "began").read_text()) - at_s >= 2.0


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_files_that_are_there_are_kept_or_not(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, mode: str
) -> None:
    script = (
        f"#!/bin/bash\n#SBATCH --open-mode={mode} -o log -e errors --input=given\n"
        'cat; echo e >&2; [ -n "$(cat)" ] || echo nothing is left\n'
    )
    for side in (theirs, ours):
        (side.folder / "log").write_text("before\n")
        (side.folder / "errors").write_text("before\n")
        (side.folder / "given").write_text("from the file\n")
    their_end, our_end = ended(oracle, pool, theirs.submit(script), ours.submit(script))
    assert our_end == their_end
    for name in ("log", "errors"):
        assert (ours.folder / name).read_text() == (theirs.folder / name).read_text()


SIGNALLED: Final = """#!/bin/bash
#SBATCH -o log
trap 'echo batch USR1 >>got' USR1
short() { for i in $(seq 100); do sleep 0.05; done; }
export -f short
srun bash -c 'trap "echo step USR1 >>got" USR1; echo up >>up; short' &
short
wait
"""


@pytest.mark.parametrize("option", ["", "--batch", "--full"])
def test_signals_reach_the_same_processes(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side, option: str
) -> None:
    found = []
    for side in (theirs, ours):
        number = side.submit(SIGNALLED)
        until((side.folder / "up").exists, "its step runs")
        said(side, "scancel", "-s", "USR1", *([option] if option else []), number)
        ended_there(oracle, pool, side is theirs, number)
        got = side.folder / "got"
        # srun passes on what it gets, too: one signal may reach a process twice
        found.append(set(got.read_text().splitlines()) if got.exists() else set())
    assert found[1] == found[0]


LIMIT_S: Final = 120
WARNED: Final = """#!/bin/bash
#SBATCH -t 2 --mem=100M -o log --signal=SIGNAL
date +%s.%N >began.$SLURM_JOB_ID
note() { echo "$1 $(date +%s.%N)" >>got.$SLURM_JOB_ID; }
work() { until [ -e go.$SLURM_JOB_ID ]; do sleep 0.05; done; }
export -f note work
trap 'note script' USR1
srun bash -c 'trap "note step" USR1; work' &
bash -c 'trap "note child" USR1; work' &
work
wait
"""
WARNINGS: Final = {"USR1@105": 105, "B:USR1@105": 105, "USR1": 60, "B:USR1": 60}
"""How long before the time limit each signal comes."""
CHECK_S: Final = 30
"""Slurm looks at time limits this often, and signals up to as much earlier or later."""


def test_the_signal_before_the_time_limit_reaches_the_same_processes(
    oracle: Oracle, pool: PoolNode, theirs: Side, ours: Side
) -> None:
    numbers = {
        side: {each: side.submit(WARNED.replace("SIGNAL", each)) for each in WARNINGS}
        for side in (theirs, ours)
    }
    found: dict[Side, dict[str, set[str]]] = {theirs: {}, ours: {}}
    for each, before_s in WARNINGS.items():
        for side in (theirs, ours):
            number = numbers[side][each]
            got = side.folder / f"got.{number}"
            until(got.exists, f"{each} comes", LIMIT_S)
            (side.folder / f"go.{number}").touch()
            ended_there(oracle, pool, side is theirs, number)
            lines = [line.split() for line in got.read_text().splitlines()]
            found[side][each] = {who for who, _ in lines}
            began_s = float((side.folder / f"began.{number}").read_text())
            at_s = float(lines[0][1]) - began_s
            assert abs(at_s - (LIMIT_S - before_s)) < CHECK_S + 5, (each, side is theirs)
    assert found[ours] == found[theirs]
