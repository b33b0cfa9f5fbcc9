"""`squeue`, `sacct`, `sinfo`, `scontrol` and `scancel` on a pool, as scripts call them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.install import install
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool, PoolNode

TWO = "2xA100-80:memory=96MiB"


@pytest.fixture
def pool(make_pool: MakePool) -> PoolNode:
    return make_pool(TWO)


class Slurm:
    """The programs of Slurm, as they are installed."""

    def __init__(self, pool: PoolNode) -> None:
        self._folder = pool.node.folder / "slurm"
        install(self._folder)
        self._env = pool.node.env

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """One program, to its end."""
        return subprocess.run(
            [self._folder / name, *words],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )

    def said(self, name: str, *words: str) -> str:
        """What a program prints that succeeds."""
        done = self.run(name, *words)
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stderr)
        return done.stdout


@pytest.fixture
def slurm(pool: PoolNode) -> Slurm:
    return Slurm(pool)


def test_a_job_is_seen_from_its_queue_to_its_end(pool: PoolNode, slurm: Slurm) -> None:
    script, opens = pool.gate("open")
    first = pool.submit(f"{script}; exit 3", gpus=2, name="first", time_limit_s=3600.0)
    pool.until_state(first, "running")
    second = pool.submit("true", name="second")
    held = pool.submit("true", name="held", hold=True)
    assert slurm.said("squeue", "-h", "-o", "%i %j %t %r") == (
        f"{second} second PD Priority\n{held} held PD JobHeldUser\n{first} first R None\n"
    ).replace("Priority", slurm.said("squeue", "-h", "-j", str(second), "-o", "%r").strip())
    assert slurm.said("squeue", "-h", "-j", str(second), "-o", "%r").strip() in (
        "Resources", "Priority", "AssocGrpGRES",
    )  # fmt: skip
    sentence = slurm.said("squeue", "-h", "-j", str(second), "-O", "reasonlist:200")
    assert "GPU" in sentence
    shown = slurm.said("scontrol", "show", "job", str(first))
    assert f"JobId={first} JobName=first" in shown
    assert "JobState=RUNNING" in shown
    assert "TimeLimit=01:00:00" in shown
    assert "mix" in slurm.said("sinfo", "-h") or "alloc" in slurm.said("sinfo", "-h")
    opens.touch()
    assert pool.ended(first).state is WorkState.FAILED
    pool.ended(second)
    lines = slurm.said(
        "sacct", "-j", f"{first},{second}", "-n", "-P", "-o", "JobID,State,ExitCode"
    ).splitlines()
    assert lines == [
        f"{first}|FAILED|3:0", f"{first}.batch|FAILED|3:0",
        f"{second}|COMPLETED|0:0", f"{second}.batch|COMPLETED|0:0",
    ]  # fmt: skip
    rss = slurm.said("sacct", "-n", "-P", "-j", f"{first}.batch", "-o", "MaxRSS").strip()
    assert rss.endswith("K")
    assert int(rss[:-1]) > 100
    assert slurm.said("sacct", "-X", "-n", "-P", "--name", "first", "-o", "JobIdRaw,State") == (
        f"{first}|FAILED\n"
    )
    assert slurm.said("squeue", "-h", "-t", "all", "--name", "first", "-o", "%i|%T") == (
        f"{first}|FAILED\n"
    )
    found = json.loads(slurm.said("squeue", "--json"))["jobs"]
    assert [(job["job_id"], job["state_reason"]) for job in found] == [(held, "JobHeldUser")]


def test_an_array_is_one_line_until_its_tasks_run(pool: PoolNode, slurm: Slurm) -> None:
    script, opens = pool.gate("open")
    array = pool.submit(script, array="0-4%1", name="many")
    until(lambda: "_0 R" in slurm.said("squeue", "-h", "-o", "%i %t"), "the first task runs")
    assert slurm.said("squeue", "-h", "-o", "%i %t") == f"{array}_[1-4%1] PD\n{array}_0 R\n"
    assert slurm.said("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split() == [
        f"{array}_{at}" for at in range(1, 5)
    ]
    assert slurm.said("sacct", "-n", "-X", "-P", "-j", str(array), "-o", "JobID,State").split("\n")[
        :2
    ] == [f"{array}_0|RUNNING", f"{array}_[1-4%1]|PENDING"]
    slurm.said("scontrol", "hold", f"{array}_4")
    assert pool.row(array + 4).state is WorkState.HELD
    slurm.said("scancel", f"{array}_[1-2]")
    assert [pool.row(array + at).state for at in (1, 2, 3)] == ["cancelled", "cancelled", "pending"]
    slurm.said("scontrol", "update", f"JobId={array}", "TimeLimit=30")  # two tasks are over
    assert [pool.row(array + at).time_limit_s for at in range(5)] == [1800, None, None, 1800, 1800]
    slurm.said("scancel", "--me", "-n", "many")
    opens.touch()
    assert {pool.ended(array + at).state for at in range(5)} == {WorkState.CANCELLED}


def test_a_signal_reaches_the_script_and_a_requeue_starts_it_again(
    pool: PoolNode, slurm: Slurm
) -> None:
    script = "trap 'echo caught' USR1; echo run; while :; do sleep 0.05; done"
    number = pool.submit(script)
    pool.until_state(number, "running")
    until(lambda: "run" in pool.output(number), "the script runs")
    slurm.said("scancel", "--signal=USR1", "--batch", str(number))
    until(lambda: "caught" in pool.output(number), "the signal was caught")
    slurm.said("scancel", "--signal=USR2", str(number))  # only steps get it, and there are none
    slurm.said("scontrol", "requeue", str(number))
    until(lambda: pool.output(number).count("run") == 2, "it runs again")
    row = pool.row(number)
    assert (row.attempt, row.restarts) == (2, 1)
    slurm.said("scontrol", "requeuehold", str(number))
    pool.until_state(number, "held")
    slurm.said("scontrol", "update", f"JobId={number}", "TimeLimit=30", "JobName=other", "Nice=5")
    row = pool.row(number)
    assert (row.time_limit_s, row.name, row.priority) == (1800.0, "other", -5)
    slurm.said("scontrol", "release", str(number))
    pool.until_state(number, "running")
    slurm.said("scontrol", "update", f"jobid={number}", "timelimit=5")
    assert pool.row(number).time_limit_s == 300.0
    refused = slurm.run("scontrol", "update", f"jobid={number}", "starttime=now+1hour")
    assert (refused.returncode, "only while it waits" in refused.stderr) == (1, True)
    slurm.said("scancel", str(number))
    assert pool.ended(number).state is WorkState.CANCELLED
    assert slurm.said("scancel", str(number)) == ""


NOT_THERE = (
    (("squeue", "-j", "999"), 1, "slurm_load_jobs error: Invalid job id specified"),
    (("scontrol", "show", "job", "999"), 1, "slurm_load_jobs error: Invalid job id specified"),
    (("scontrol", "hold", "999"), 1, "Invalid job id specified for job 999"),
    (("scontrol", "requeue", "999"), 1, "Invalid job id specified for job 999"),
    (("scontrol", "update", "jobid=999", "timelimit=5"), 1, "Invalid job id specified for job 999"),
    (("scontrol", "show", "node", "nope"), 1, ""),
    (("scontrol", "show", "partition", "nope"), 1, ""),
    (("scancel", "-v", "999"), 0, "scancel: error: Kill job error on job id 999: Invalid job id"),
    (("scancel", "999"), 0, ""),
)


def test_what_is_not_there_is_said_as_slurm_says_it(slurm: Slurm) -> None:
    for words, code, said in NOT_THERE:
        done = slurm.run(*words)
        assert (done.returncode, said in done.stderr) == (code, True), (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert slurm.said("scontrol", "ping").startswith("Slurmctld(primary) at ")
    assert slurm.said("sinfo", "-h", "-o", "%P") == "pool*\n"


def test_without_a_pool_all_say_so(tmp_path: Path) -> None:
    for words in (["squeue"], ["sacct"], ["sinfo"], ["scontrol", "show", "job"], ["scancel", "1"]):
        done = subprocess.run(
            [sys.executable, "-m", "moiety.slurm", *words],
            env={"MOIETY_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, "no pool" in done.stderr) == (1, True), (words, done.stderr)
