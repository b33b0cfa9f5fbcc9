"""What `sacct` shows of jobs and their steps, in real Slurm and in a pool."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from moiety.testing.waiting import until
from tests.slurm.side import Side
from tests.support import slurm_accounts
from tests.support.slurm_oracle import Oracle

COLUMNS: Final = (
    "JobID,JobName,State,ExitCode,DerivedExitCode,NTasks,AllocCPUS,AllocTRES,ReqTRES,Layout,NNodes"
)
STEPS: Final = """#!/bin/bash
#SBATCH -n 2 --gres=gpu:2 --mem=100M -J steps
srun -J good true
srun -n1 bash -c 'exit 7'
srun -n1 bash -c 'kill -TERM $$'
srun -n1 no-such-program
srun -n1 bash -c 'exit 137'
srun -n2 -c 1 --gres=none bash -c 'exit $((SLURM_PROCID * 3))'
exit 0
"""
WAITS: Final = """#!/bin/bash
#SBATCH --mem=100M -J waits
srun bash -c 'echo up >up; exec sleep 600'
"""


@pytest.fixture(scope="module")
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Real Slurm with accounts; jobs have other variables with them, so others have none."""
    if lacking := slurm_accounts.missing():
        pytest.skip(f"{' and '.join(lacking)} not installed: make test-slurm installs them")
    found = Oracle(tmp_path_factory.mktemp("accounted"), has_accounts=True)
    yield found
    found.close()


@pytest.fixture
def theirs(accounted: Oracle, tmp_path: Path) -> Side:
    """Real Slurm, for one test."""
    return Side(tmp_path / "theirs", accounted.environment)


def run(side: Side, *words: str) -> subprocess.CompletedProcess[str]:
    """One of Slurm's commands there."""
    return subprocess.run(
        words, cwd=side.folder, env=side.env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


def lines(side: Side, number: str, *options: str, columns: str = COLUMNS) -> list[str]:
    """What `sacct` shows; the number of the job is left out."""
    words = ("sacct", "-n", "-P", "-o", columns, "-j", number, *options)
    done = run(side, *words)
    assert done.returncode == 0, done.stderr
    return [f"JOB{line.removeprefix(number)}" for line in done.stdout.splitlines()]


def is_over(side: Side, number: str) -> bool:
    """Whether the accounts have the end of a job and of all its steps.

    Real Slurm's call a job `allocation` until they are told its name, which may be after its steps.
    """
    found = lines(side, number, columns="JobID,State,End,JobName")
    lacking = ("RUNNING", "Unknown", "|allocation")
    return bool(found) and not any(word in line for line in found for word in lacking)


def is_running(side: Side, number: str) -> bool:
    """Whether the accounts have a job and its two steps as running."""
    found = lines(side, number, columns="State")
    return [line.removeprefix("JOB") for line in found] == ["RUNNING"] * 3


def both_over(theirs: Side, ours: Side, there: str, here: str) -> None:
    for side, number in ((theirs, there), (ours, here)):
        until(lambda: is_over(side, number), "sacct shows the end")  # noqa: B023


def test_lines_of_steps_are_equal(theirs: Side, ours: Side) -> None:
    there, here = theirs.submit(STEPS), ours.submit(STEPS)
    both_over(theirs, ours, there, here)
    assert lines(ours, here) == lines(theirs, there)
    assert len(lines(ours, here)) == 8
    for options in (("-X",), ("-s", "CD", "-S", "now-1hour", "-E", "now"), ("--name", "steps")):
        assert lines(ours, here, *options, columns="JobID,State,ExitCode") == lines(
            theirs, there, *options, columns="JobID,State,ExitCode"
        ), options
    for step in ("0", "3", "batch", "77"):
        named = f"{{}}.{step}"
        assert [
            line.removeprefix("JOB") for line in lines(ours, named.format(here), columns="State")
        ] == [
            line.removeprefix("JOB") for line in lines(theirs, named.format(there), columns="State")
        ], step


def test_a_cancelled_job_and_its_step_are_equal(theirs: Side, ours: Side) -> None:
    numbers = {side: side.submit(WAITS) for side in (theirs, ours)}
    for side, number in numbers.items():
        until((side.folder / "up").exists, "the step runs")
        until(lambda: is_running(side, number), "the step is told")  # noqa: B023
    columns = "JobID,JobName,State,ExitCode,NTasks,AllocTRES,End"
    assert lines(ours, numbers[ours], columns=columns) == lines(
        theirs, numbers[theirs], columns=columns
    )
    for side, number in numbers.items():
        run(side, "scancel", number)
    both_over(theirs, ours, numbers[theirs], numbers[ours])
    assert lines(ours, numbers[ours]) == lines(theirs, numbers[theirs])


def test_jobs_of_srun_and_salloc_are_equal(theirs: Side, ours: Side) -> None:
    """Of a job of srun alone, Slurm has its step's code as derived, or 0 if the job ended first."""
    told = "echo $SLURM_JOB_ID"
    two = f"{told}; srun true; srun bash -c 'exit 2'; exit 3"
    columns = "JobID,State,ExitCode,NTasks"
    commands = {
        ("srun", "-n1", "--mem=100M", "-J", "alone", "bash", "-c", f"{told}; exit 4"): columns,
        ("salloc", "--mem=100M", "bash", "-c", two): f"{columns},DerivedExitCode",
    }
    for command, shown in commands.items():
        found = []
        for side in (theirs, ours):
            done = run(side, *command)
            number = done.stdout.strip()
            until(lambda: is_over(side, number), "sacct shows the end")  # noqa: B023
            found.append((done.returncode, lines(side, number, columns=shown)))
        assert found[1] == found[0]
