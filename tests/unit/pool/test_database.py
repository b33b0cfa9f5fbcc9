"""The store's files: one process has them, and what they are is checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moiety.model.errors import PoolRunning
from moiety.pool.store import database
from moiety.pool.store.database import StoreFiles
from tests.support.pool_store import paths_in, reading_in, store_in, submitted


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
    read = reading_in(tmp_path)
    assert read.execute("SELECT name FROM workload").fetchone()[0] == "true"
