"""What has happened to running work is written down, also where the disk was full."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moiety.model.errors import SystemRefusal
from moiety.pool.control import running as module
from moiety.pool.control.outcomes import AttemptOutcome
from moiety.pool.control.running import RunningWork
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows
from tests.support.pool_store import paths_in, store_in, submitted

FULL = 3
"""so many writes find no room"""


class SmallDisk:
    """A writer whose disk is full at first."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.tries = 0

    def write(self, work: Callable[[sqlite3.Connection], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self.tries += 1
        if self.tries <= FULL:
            future.set_exception(sqlite3.OperationalError("database or disk is full"))
        else:
            future.set_result(work(self.connection))
        return future


class WellCards:
    """GPUs on which nothing fails."""

    async def ended(self, *_: object) -> bool:
        """Take no note of it."""
        return False


def done(_: WorkRow, **__: float) -> AttemptOutcome:
    return AttemptOutcome(WorkState.DONE, "exited 0", {"reason": ""})


def test_the_end_of_work_waits_for_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FULL_S", 0.0)
    store = store_in(tmp_path)
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 101.0)
    disk: Any = SmallDisk(store)
    told: list[None] = []
    cards: Any = WellCards()
    work = RunningWork(paths_in(tmp_path), disk, partial(told.append, None), cards=cards)
    asyncio.run(work.end(number, 1, done))
    assert disk.tries == FULL + 1
    assert rows.workload(store, number).state is WorkState.DONE
    assert told == [None]


def test_a_share_is_the_pools_as_long_as_its_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FULL_S", 0.0)
    monkeypatch.setattr(module, "LEAVES_S", 0.0)
    store = store_in(tmp_path)
    disk: Any = SmallDisk(store)
    cards: Any = WellCards()
    work = RunningWork(paths_in(tmp_path), disk, lambda: None, cards=cards)

    async def live() -> list[set[str]]:
        seen = []
        for attempt, name in ((1, "run-4"), (2, "run-9")):
            work._shares[1, attempt] = name
            seen.append(set(work.agent_workloads))
            await work.end(1, attempt, done)
            later = asyncio.Event()
            asyncio.get_running_loop().call_later(0.001, later.set)
            await later.wait()
        return [*seen, set(work.agent_workloads)]

    submitted(store)
    changes.begin_attempt(store, 1, 1, [0], 101.0)
    assert asyncio.run(live()) == [{"run-4"}, {"run-9"}, set()]


class Deaf:
    """A supervisor whose queue of signals is full."""

    number = 1

    def limit(self, limit_s: float | None) -> None:
        """Raise what the kernel says."""
        raise OSError(errno.EAGAIN, f"{limit_s} s")


def test_a_supervisor_that_cannot_be_told_its_time_limit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: Any = SmallDisk(store_in(tmp_path))
    cards: Any = WellCards()
    deaf: Any = Deaf()
    work = RunningWork(paths_in(tmp_path), disk, lambda: None, cards=cards)
    work.limit(1, 60.0)  # it is over
    work.by_number[1] = deaf
    work.limit(1, 60.0)  # a program without its supervisor has no limit to change
    monkeypatch.setattr(RunningWork, "_is_supervised", lambda *_: True)
    with pytest.raises(SystemRefusal, match="60"):
        work.limit(1, 60.0)
