"""Suspended work of the pool: by hand and by the engine, with every byte right afterwards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import Started, read_started
from moiety.testing.waiting import until
from tests.integration.test_pool_kill import change
from tests.integration.verified import RIGHT
from tests.support.pool_node import MakePool, PoolNode

MIB = 1 << 20
ONE = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
FOREVER = 1_000_000
PROJECTS = "projects:\n- {name: due, quota: 1}\n- {name: spare, quota: 0}\n"


class Work:
    """Submits programs that compute until they are told to stop, and then check every word."""

    def __init__(self, pool: PoolNode, programs: Path, kernels: Path) -> None:
        self.pool = pool
        self.command = [str(programs / "worker"), str(kernels)]

    def submit(self, mib: int = 60, seed: int = 1, **values: object) -> int:
        argv = [*self.command, str(mib * MIB), str(FOREVER), "0", "0", str(seed)]
        asked = {"program": self.command[0], "argv": argv, "environment": self.pool.node.env}
        return self.pool.submit("", **asked, **values)

    def started(self, number: int) -> Started:
        found = until(lambda: read_started(self.pool.paths.of_workload(number)), "it has begun")
        assert isinstance(found, Started)
        return found

    def rows(self, number: int) -> list[dict[str, Any]]:
        """What the agent says of its program."""
        pid = self.started(number).child.pid
        return [row for row in self.pool.node.json("ps") if row["pid"] == pid]

    def computes(self, number: int) -> None:
        """Wait until it has had a turn, and has all of its memory."""
        until(
            lambda: any(row["handoffs"] and row["resident_bytes"] for row in self.rows(number)),
            f"workload {number} has had a turn",
        )

    def is_frozen(self, number: int) -> bool:
        """Whether its program is stopped."""
        text = Path(f"/proc/{self.started(number).child.pid}/status").read_text()
        return "State:\tT" in text

    def stop(self, number: int) -> None:
        """Have it check its memory, and end."""
        os.kill(self.started(number).child.pid, signal.SIGUSR1)

    def is_right(self, number: int) -> None:
        """It has ended well, and found no word wrong."""
        row = self.pool.ended(number)
        said = self.pool.output(number)
        assert row.state is WorkState.DONE, (row, said)
        assert RIGHT.search(said), said


@pytest.fixture
def work(make_pool: MakePool, programs: Path, kernels: Path) -> Work:
    """A pool with one GPU."""
    return Work(make_pool(ONE), programs, kernels)


def test_suspended_by_hand_it_is_off_the_gpu_and_frozen_and_goes_on_there(work: Work) -> None:
    pool = work.pool
    number = work.submit(time_limit_s=3600.0)
    work.computes(number)
    said = pool.node.cli("suspend", str(number))
    assert said.returncode == 0, said.stderr
    assert said.stdout == f"workload {number} is suspended: {pool.row(number).reason}\n"
    assert pool.row(number).reason.startswith("suspended by ")
    (shown,) = work.rows(number)
    assert (shown["state"], shown["resident_bytes"]) == ("suspended", 0)
    until(lambda: work.is_frozen(number), "its processes are stopped")
    assert "suspended" in pool.node.cli("queue").stdout

    other = work.submit(seed=2)
    work.computes(other)  # the whole GPU is promised to it
    assert pool.node.cli("resume", str(number)).stdout == (
        f"workload {number} is suspended: it goes on when its GPUs have room\n"
    )
    work.stop(other)
    work.is_right(other)
    row = pool.until_state(number, "running")
    assert (row.attempt, row.intent, row.suspended_since_s) == (1, "", None)
    assert row.suspended_s > 0
    work.computes(number)
    work.stop(number)
    work.is_right(number)
    assert pool.status().start_refused == 0


def test_the_engine_suspends_what_it_would_end_and_lets_it_go_on(work: Work) -> None:
    pool = work.pool
    file = pool.node.folder / "pool.yaml"
    file.write_text(PROJECTS)
    assert pool.node.cli("apply", "-f", str(file)).returncode == 0
    spare = work.submit(project="spare")
    work.computes(spare)
    due = work.submit(seed=2, project="due")
    pool.until_state(due, "running")
    work.computes(due)
    row = pool.row(spare)
    assert (row.state, row.attempt) == (WorkState.SUSPENDED, 1)
    assert row.cards == [0]
    work.stop(due)
    work.is_right(due)
    pool.until_state(spare, "running")
    work.computes(spare)
    work.stop(spare)
    work.is_right(spare)
    assert pool.row(spare).restarts == 0


def test_cancelled_while_it_is_suspended_it_ends(work: Work) -> None:
    pool = work.pool
    number = work.submit()
    work.computes(number)
    assert pool.node.cli("suspend", str(number)).returncode == 0
    until(lambda: work.is_frozen(number), "its processes are stopped")
    assert pool.node.cli("cancel", str(number)).returncode == 0
    assert pool.ended(number).state is WorkState.CANCELLED


def test_work_that_does_not_run_cannot_be_suspended(work: Work) -> None:
    number = work.pool.submit("true", hold=True)
    refused = work.pool.node.cli("suspend", str(number))
    assert refused.returncode != 0
    assert f"workload {number} is held: only work that runs can be suspended" in refused.stderr
    assert work.pool.node.cli("resume", str(number)).returncode != 0


@pytest.mark.parametrize("state", ["suspending", "suspended", "resuming"])
def test_the_next_server_goes_on_from_there(work: Work, state: str) -> None:
    pool = work.pool
    number = work.submit()
    work.computes(number)
    if state != "suspending":
        assert pool.node.cli("suspend", str(number)).returncode == 0
    pool.kill()
    change(pool, f"UPDATE workload SET state = '{state}', intent = 'suspended' WHERE id = {number}")
    pool.up()
    if state != "resuming":
        pool.until_state(number, "suspended")
        until(lambda: work.is_frozen(number), "its processes are stopped")
        (shown,) = work.rows(number)
        assert (shown["state"], shown["resident_bytes"]) == ("suspended", 0)
        assert pool.node.cli("resume", str(number)).returncode == 0
    pool.until_state(number, "running")
    work.computes(number)
    work.stop(number)
    work.is_right(number)
    assert json.loads(pool.node.cli("history", "-o", "json").stdout)[0]["attempt"] == 1


def test_agent_and_server_are_killed_while_it_is_frozen(work: Work) -> None:
    pool = work.pool
    number = work.submit()
    work.computes(number)
    assert pool.node.cli("suspend", str(number)).returncode == 0
    until(lambda: work.is_frozen(number), "its processes are stopped")
    agent = pool.node.json("status")["pid"]
    os.kill(agent, signal.SIGKILL)
    pool.kill()
    until(lambda: not os.path.exists(f"/proc/{agent}/exe"), "the agent is gone")
    pool.up()
    assert pool.row(number).state is WorkState.SUSPENDED
    assert pool.node.cli("resume", str(number)).returncode == 0
    pool.until_state(number, "running")
    work.computes(number)
    work.stop(number)
    work.is_right(number)
