"""Cleaning: it goes on until nothing old is left, and a full disk ends only this time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.pool.control import cleaning
from moiety.pool.control.cleaning import clean
from moiety.pool.store import changes
from tests.support.pool_store import paths_in, store_in, submitted


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "PAUSE_S", 0.0)


def test_it_goes_on_until_nothing_is_left(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for at in range(500):
        changes.audit(store, 0, "hold", str(at), 100.0)
    written: list[int] = []

    async def write(work: Callable[[sqlite3.Connection], int]) -> int:
        written.append(work(store))
        return written[-1]

    assert asyncio.run(clean(write, paths_in(tmp_path), 1000.0)) == 500
    assert len(written) > 2
    assert store.execute("SELECT count(*) FROM audit").fetchone() == (0,)


def test_a_full_disk_ends_it_for_this_time(tmp_path: Path) -> None:
    async def write(_: Callable[[sqlite3.Connection], int]) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    assert asyncio.run(clean(write, paths_in(tmp_path), 1000.0)) == 0


def test_folders_of_what_was_deleted_go(tmp_path: Path) -> None:
    store, paths = store_in(tmp_path), paths_in(tmp_path)
    for number in range(1, 5):
        submitted(store)
        paths.of_workload(number).mkdir(parents=True)
        (paths.of_workload(number) / "exit").write_text("0")
    for number in (1, 2, 4):
        changes.cancel(store, number, "cancelled", "by ann", 100.0 + number)
    paths.of_workload(9).mkdir()  # begun, as nobody here knows any more

    async def write(work: Callable[[sqlite3.Connection], object]) -> object:
        return work(store)

    assert asyncio.run(clean(write, paths, 1000.0))
    there = sorted(int(path.name) for path in paths.workloads.iterdir())
    assert there == [3, 4, 9], "what waits, the last change, and the last number stay"
