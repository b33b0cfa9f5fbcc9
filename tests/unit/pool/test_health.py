"""A damaged store is named, with what to do; no new one takes its place."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.model.errors import StoreBroken
from moiety.pool.paths import PoolPaths
from moiety.pool.store import health
from moiety.pool.store.database import StoreFiles
from tests.support.pool_store import paths_in, reading_in, store_in, submitted


@pytest.fixture
def paths(tmp_path: Path) -> PoolPaths:
    """A pool that is down, with a hundred workloads in its store."""
    with contextlib.closing(store_in(tmp_path)) as store:
        store.execute("BEGIN")
        for at in range(100):
            submitted(store, name=f"work-{at}", environment={"TEXT": "x" * 3000})
        store.execute("COMMIT")
    return paths_in(tmp_path)


def flipped(paths: PoolPaths) -> None:
    """Random bytes in the middle, in all pages but the first."""
    content = bytearray(paths.database.read_bytes())
    rng = random.Random(7)
    for at in range(4096, len(content), 4096):
        content[at : at + 64] = rng.randbytes(64)
    paths.database.write_bytes(content)


def header(paths: PoolPaths) -> None:
    with paths.database.open("r+b") as file:
        file.write(b"\0" * 100)


def short(paths: PoolPaths) -> None:
    with paths.database.open("r+b") as file:
        file.truncate(paths.database.stat().st_size // 2)


def foreign(paths: PoolPaths) -> None:
    paths.database.unlink()
    with contextlib.closing(sqlite3.connect(paths.database)) as other:
        other.execute("CREATE TABLE recipe(name)")
        other.commit()


def text(paths: PoolPaths) -> None:
    paths.database.write_text("a letter to a friend\n" * 400)


def lost(paths: PoolPaths) -> None:
    paths.of_workload(7).mkdir()
    paths.database.unlink()


def emptied(paths: PoolPaths) -> None:
    paths.of_workload(7).mkdir()
    paths.database.write_bytes(b"")


def only_the_log(paths: PoolPaths) -> None:
    health.log_of(paths.database).write_bytes(b"x" * 5000)
    paths.database.unlink()


@pytest.mark.parametrize(
    "damage", [flipped, header, short, foreign, text, lost, emptied, only_the_log]
)
def test_a_damaged_store_is_named_and_stays(
    paths: PoolPaths, damage: Callable[[PoolPaths], None]
) -> None:
    damage(paths)
    before = paths.database.read_bytes() if paths.database.exists() else None
    with pytest.raises(StoreBroken) as caught:
        StoreFiles(paths)
    assert str(paths.database) in caught.value.what
    assert "moiety restore" in caught.value.hint
    assert caught.value.exit_code == 65
    assert (paths.database.read_bytes() if paths.database.exists() else None) == before
    with pytest.raises(StoreBroken):
        StoreFiles(paths)  # the lock is free, and it is as damaged as before


def test_a_log_that_is_cut_loses_only_what_was_cut(tmp_path: Path) -> None:
    """What SQLite finds whole in its log counts; a torn end is what a crash leaves."""
    store = store_in(tmp_path)
    store.execute("PRAGMA wal_autocheckpoint=0")
    submitted(store, name="first")
    log = health.log_of(paths_in(tmp_path).database)
    size = log.stat().st_size
    submitted(store, name="second")
    copy = tmp_path / "copy"
    there = paths_in(copy)
    there.database.write_bytes(paths_in(tmp_path).database.read_bytes())
    health.log_of(there.database).write_bytes(log.read_bytes()[: size + 1000])
    StoreFiles(there).close()
    assert [row["name"] for row in reading_in(copy).execute("SELECT name FROM workload")] == [
        "first"
    ]


def test_a_large_store_is_not_read_whole_at_each_start(
    paths: PoolPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECKED_BYTES", 1000)
    said: list[str] = []
    with contextlib.closing(sqlite3.connect(paths.database)) as store:
        store.set_trace_callback(said.append)
        health.must_be_whole(store, paths.database)
        assert not any("quick_check" in each for each in said)
        health.must_be_whole(store, paths.database, whole=True)
        assert any("quick_check" in each for each in said)


def test_a_pool_begins_where_there_was_none(tmp_path: Path) -> None:
    StoreFiles(paths_in(tmp_path)).close()
