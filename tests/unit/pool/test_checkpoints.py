"""Checkpoints: the log's content is moved beside the writer, and the log does not grow for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.pool.store import checkpoints
from moiety.pool.store.checkpoints import Checkpoints
from moiety.pool.store.database import StoreFiles, connect
from moiety.testing.waiting import until
from tests.support.pool_store import paths_in, reading_in, store_in, submitted


@pytest.fixture
def moving(tmp_path: Path) -> Callable[[], Checkpoints]:
    store_in(tmp_path).close()
    paths = paths_in(tmp_path)
    return lambda: Checkpoints(paths.database, lambda: connect(paths))


def test_the_writer_itself_moves_nothing(tmp_path: Path) -> None:
    files = StoreFiles(paths_in(tmp_path))
    asked = files.writer.write(lambda c: c.execute("PRAGMA wal_autocheckpoint").fetchone())
    assert asked.result(60) == (0,)
    files.close()


def test_many_rows_are_moved_into_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHANGES", 30)
    files = StoreFiles(paths_in(tmp_path))
    before = paths_in(tmp_path).database.stat().st_size
    for _ in range(20):
        files.writer.write(submitted).result(60)
    until(lambda: files.checkpoints.moved, "the log's content was moved")
    assert paths_in(tmp_path).database.stat().st_size > before
    files.close()


def test_a_long_log_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moving: Callable[[], Checkpoints]
) -> None:
    monkeypatch.setattr(checkpoints, "LOG_BYTES", 1000)
    monkeypatch.setattr(checkpoints, "LOG_MAX_BYTES", 100_000)
    store = store_in(tmp_path)
    store.execute("PRAGMA wal_autocheckpoint=0")
    submitted(store, environment={"LARGE": "x" * 200_000})
    log = Path(f"{paths_in(tmp_path).database}-wal")
    assert log.stat().st_size > 200_000
    each = moving()
    each.committed(store.total_changes)
    until(lambda: each.moved, "the log was looked at")
    assert log.stat().st_size == 0
    each.close()


def test_a_reader_keeps_the_log_and_not_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moving: Callable[[], Checkpoints]
) -> None:
    monkeypatch.setattr(checkpoints, "LOG_BYTES", 1000)
    monkeypatch.setattr(checkpoints, "LOG_MAX_BYTES", 1000)
    store = store_in(tmp_path)
    reading = reading_in(tmp_path)
    reading.execute("BEGIN")
    reading.execute("SELECT count(*) FROM workload").fetchone()
    submitted(store, environment={"LARGE": "x" * 200_000})
    each = moving()
    each.committed(store.total_changes)
    until(lambda: each.moved, "the log was looked at")
    assert submitted(store).id == 2, "the writer goes on"
    reading.execute("COMMIT")
    each.close()
