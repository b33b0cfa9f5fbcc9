"""Steps of `srun` in `sacct`, whatever ends: a process, `srun`, the job or the server."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.install import install
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool, PoolNode

COLUMNS = "JobID,JobName,State,ExitCode,NTasks"


class Jobs:
    """A pool with Slurm's programs, and a folder of its user."""

    def __init__(self, pool: PoolNode, folder: Path) -> None:
        self.pool, self.folder = pool, folder
        install(folder / "bin")
        self.env = dict(pool.node.env) | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def said(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, script: str) -> int:
        (self.folder / "job.sh").write_text(f"#!/bin/bash\n{script}")
        return int(self.said("sbatch", "--parsable", "-n", "2", "-o", "log", "job.sh"))

    def steps(self, number: int, columns: str = COLUMNS) -> list[str]:
        return self.said("sacct", "-n", "-P", "-o", columns, "-j", str(number)).splitlines()

    def until_there(self, name: str) -> str:
        path = self.folder / name
        until(lambda: path.exists() and path.read_text().endswith("\n"), f"{name} is written")
        return path.read_text().strip()


@pytest.fixture
def jobs(make_pool: MakePool, tmp_path: Path) -> Jobs:
    pool = make_pool("2xA100-80:memory=96MiB")
    pool.up()
    return Jobs(pool, tmp_path)


def test_steps_stay_when_the_folder_of_their_job_is_gone(jobs: Jobs) -> None:
    number = jobs.submit("srun -J first true\nsrun -n1 sh -c 'exit 7'\nsrun -n1 sh -c 'kill $$'\n")
    assert jobs.pool.ended(number).state is WorkState.FAILED
    until(lambda: not jobs.pool.paths.spool_of(number).exists(), "its folder is gone")
    assert jobs.steps(number) == [
        f"{number}|job.sh|FAILED|15:0|",
        f"{number}.batch|batch|FAILED|15:0|1",
        f"{number}.0|first|COMPLETED|0:0|2",
        f"{number}.1|sh|FAILED|7:0|1",
        f"{number}.2|sh|CANCELLED|0:15|1",
    ]
    assert jobs.said("sacct", "-X", "-n", "-P", "-o", "JobID", "-j", str(number)) == str(number)


def test_a_step_whose_srun_is_killed_runs_until_its_job_ends(jobs: Jobs) -> None:
    number = jobs.submit(
        "srun -n1 sleep 600 & echo $! >srun; until [ -e go ]; do sleep 0.02; done; exit 3\n"
    )
    pid = int(jobs.until_there("srun"))
    until(lambda: any(".0|" in line for line in jobs.steps(number)), "the step is told")
    os.kill(pid, signal.SIGKILL)
    assert jobs.steps(number)[-1] == f"{number}.0|sleep|RUNNING|0:0|1"
    (jobs.folder / "go").touch()
    assert jobs.pool.ended(number).exit_code == 3
    assert jobs.steps(number)[-1] == f"{number}.0|sleep|CANCELLED by {os.getuid()}|0:9|1"


def test_a_cancelled_job_cancels_its_step(jobs: Jobs) -> None:
    number = jobs.submit("srun -n1 sh -c 'echo up >up; exec sleep 600'\n")
    jobs.until_there("up")
    jobs.said("scancel", str(number))
    assert jobs.pool.ended(number).state is WorkState.CANCELLED
    assert jobs.steps(number, "JobID,State,ExitCode")[1:] == [
        f"{number}.batch|CANCELLED|0:15", f"{number}.0|CANCELLED|0:15",
    ]  # fmt: skip


def test_a_server_that_is_killed_is_told_once_it_is_back(jobs: Jobs) -> None:
    number = jobs.submit("srun -n1 sh -c 'echo up >up; until [ -e go ]; do sleep 0.02; done'\n")
    jobs.until_there("up")
    jobs.pool.kill()
    jobs.pool.up()
    (jobs.folder / "go").touch()
    assert jobs.pool.ended(number).state is WorkState.DONE
    assert jobs.steps(number, "JobID,State")[-1] == f"{number}.0|COMPLETED"


def test_steps_that_ran_while_no_server_did_are_told_by_the_next(jobs: Jobs) -> None:
    number = jobs.submit(
        "await() { until [ -e $1 ]; do sleep 0.02; done; }\n"
        "echo up >up; await down; srun -J lost true\necho on >on; await back; srun true\n"
    )
    jobs.until_there("up")
    jobs.pool.kill()
    (jobs.folder / "down").touch()
    jobs.until_there("on")
    jobs.pool.up()
    (jobs.folder / "back").touch()
    assert jobs.pool.ended(number).state is WorkState.DONE
    assert jobs.steps(number, "JobID,JobName,State")[-2:] == [
        f"{number}.0|lost|COMPLETED",
        f"{number}.1|true|COMPLETED",
    ]


def test_a_job_started_anew_has_only_its_new_steps(jobs: Jobs) -> None:
    number = jobs.submit(
        "for at in 1 2; do srun -n1 true; done; echo $SLURM_RESTART_COUNT >count\n"
        "until [ -e go ]; do sleep 0.02; done\n"
    )
    jobs.until_there("count")
    assert [line.split("|")[0] for line in jobs.steps(number)[2:]] == [f"{number}.0", f"{number}.1"]
    (jobs.folder / "job.sh").unlink()
    (jobs.folder / "count").unlink()
    jobs.said("scontrol", "requeue", str(number))
    assert jobs.until_there("count") == "1"
    assert [line.split("|")[0] for line in jobs.steps(number)[2:]] == [f"{number}.0", f"{number}.1"]
    (jobs.folder / "go").touch()
    assert jobs.pool.ended(number).state is WorkState.DONE


def test_srun_and_salloc_alone_have_steps_but_no_script(jobs: Jobs) -> None:
    assert jobs.said("srun", "-J", "alone", "echo", "out") == "out"
    jobs.pool.ended(1)
    assert jobs.steps(1, "JobID,JobName,State") == ["1|alone|COMPLETED", "1.0|alone|COMPLETED"]
    jobs.said("salloc", "-Q", "sh", "-c", "srun true; srun true")
    jobs.pool.ended(2)
    assert jobs.steps(2, "JobID") == ["2", "2.0", "2.1"]


def test_one_step_is_ended_and_its_job_goes_on(jobs: Jobs) -> None:
    number = jobs.submit(
        "srun -n1 sh -c 'echo up >first; exec sleep 600'; echo $? >code\n"
        "srun -n1 sh -c 'until [ -e go ]; do sleep 0.02; done'\n"
    )
    jobs.until_there("first")
    listed = ("squeue", "-s", "-h", "-o", "%i", "-j", str(number))
    until(lambda: f"{number}.0" in jobs.said(*listed).split(), "the step is told")
    jobs.said("scancel", f"{number}.0")
    assert jobs.until_there("code") == "137"
    until(lambda: jobs.said(*listed).split() == [f"{number}.1", f"{number}.batch"], "the next runs")
    (jobs.folder / "go").touch()
    assert jobs.pool.ended(number).state is WorkState.DONE
    assert [line.split("|")[2:4] for line in jobs.steps(number)[2:]] == [
        ["CANCELLED", "0:9"], ["COMPLETED", "0:0"],
    ]  # fmt: skip


def test_a_step_whose_srun_is_gone_cannot_be_ended_alone(jobs: Jobs) -> None:
    number = jobs.submit("srun -n1 sleep 600 & echo $! >srun; until [ -e go ]; do sleep 0.02; done")
    pid = int(jobs.until_there("srun"))
    until(lambda: any(".0|" in line for line in jobs.steps(number)), "the step is told")
    os.kill(pid, signal.SIGKILL)
    done = subprocess.run(
        ["scancel", f"{number}.0"], env=jobs.env, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (
        1, f"scancel: error: Kill job error on job step id {number}.0: Invalid job id specified\n",
    )  # fmt: skip
    (jobs.folder / "go").touch()
    jobs.pool.ended(number)
