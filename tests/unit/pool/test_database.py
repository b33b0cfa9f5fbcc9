"""The store's files: one process has them, and what they are is checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moiety.model.errors import PoolRunning, StoreBroken, StoreNewer
from moiety.pool.store import database
from moiety.pool.store.database import StoreFiles, connect, reader
from moiety.pool.store.schema import MIGRATIONS
from tests.support.pool_store import paths_in, store_in, submitted


def test_a_second_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PREDECESSOR_S", 0.0)
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    with pytest.raises(PoolRunning, match=f"pid {os.getpid()}"):
        StoreFiles(paths)
    files.close()
    StoreFiles(paths).close()


def test_a_store_is_durable_and_private(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    submitted(store)
    assert paths_in(tmp_path).database.stat().st_mode & 0o777 == 0o600
    read = reader(paths_in(tmp_path))
    assert read.execute("SELECT name FROM workload").fetchone()[0] == "true"


def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    with pytest.raises(StoreNewer):
        StoreFiles(paths_in(tmp_path))
    assert connect(paths_in(tmp_path)).execute("SELECT count(*) FROM project").fetchone() == (1,)


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.database.write_bytes(b"no database at all" * 500)
    with pytest.raises(StoreBroken) as caught:
        StoreFiles(paths)
    assert str(paths.database) in caught.value.what
    assert caught.value.exit_code == 65


def test_the_first_schema_becomes_the_present_one(tmp_path: Path) -> None:
    """The text of the first migration never changes: stores of users have it."""
    store = store_in(tmp_path)
    tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master")}
    assert {"workload", "body", "attempt", "project", "audit"} <= tables
    assert store.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert store.execute("PRAGMA quick_check").fetchone() == ("ok",)
