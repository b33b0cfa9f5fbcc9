"""What tests of the starter share: pools, and a starter that is told what to start."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from moiety.pool.starter.programs import Starter, StartRefusal
from moiety.testing.waiting import DEADLINE_S
from tests.support.users import open_folder
from tests.support.workloads import (
    FolderEvents,
    Pool,
    Workload,
    own_cgroup,
    pool,
    until_ended,
)

LONG = "echo $$ >$TOLD; exec sleep 1000"


@contextmanager
def pool_with(kind: str) -> Iterator[Pool]:
    """A pool whose workloads have a cgroup, or (`session`) none."""
    if kind == "session":
        with open_folder() as folder, pool(folder) as made:
            yield made
        return
    with own_cgroup("cgroup2") as cgroup:
        if cgroup is None:
            pytest.skip("no cgroup of version 2 can be made here")
        with open_folder() as folder, pool(folder, [cgroup]) as made:
            yield made


@contextmanager
def events_of(workload: Workload) -> Iterator[FolderEvents]:
    events = FolderEvents(workload.folder)
    yield events
    events.close()


def begin(starter: Starter, workload: Workload) -> None:
    workload.write_spec()
    starter.start(workload.spec.id)


def finish(starter: Starter) -> None:
    """The server goes: the starter ends after the last workload."""
    starter.close()
    assert starter.process.wait(DEADLINE_S) == 0


def refusal(starter: Starter) -> StartRefusal:
    assert select.select([starter], [], [], DEADLINE_S)[0], "no refusal comes"
    found = starter.refusal()
    assert found is not None
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until_ended(pid)
