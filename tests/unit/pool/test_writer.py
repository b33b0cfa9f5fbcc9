"""The one writer: commits hold many writes, and an error undoes only its own."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from moiety.pool.store.writer import StoreWriter
from tests.support.pool_store import reading_in, store_in, submitted


def test_what_waits_for_the_disk_is_committed_together(tmp_path: Path) -> None:
    writer = StoreWriter(store_in(tmp_path))
    goes_on, is_taken = threading.Event(), threading.Event()

    def waits(_: sqlite3.Connection) -> bool:
        is_taken.set()
        return goes_on.wait(60)

    first = writer.write(waits)
    assert is_taken.wait(60)
    others = [writer.write(submitted) for _ in range(100)]
    goes_on.set()
    assert first.result(60)
    assert [future.result(60).id for future in others] == list(range(1, 101))
    assert writer.commits == 2
    writer.close()


def test_an_error_undoes_only_its_own_part(tmp_path: Path) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        submitted(connection)
        raise ValueError("in the middle")

    writer = StoreWriter(store_in(tmp_path))
    goes_on = threading.Event()
    writer.write(lambda _: goes_on.wait(60))
    before, wrong, after = writer.write(submitted), writer.write(fails), writer.write(submitted)
    goes_on.set()
    assert (before.result(60).id, after.result(60).id) == (1, 2)
    with pytest.raises(ValueError, match="in the middle"):
        wrong.result(60)
    writer.close()
    count = reading_in(tmp_path).execute("SELECT count(*) FROM workload").fetchone()[0]
    assert count == 2


def test_a_full_disk_fails_the_whole_commit_and_the_next_one_works(tmp_path: Path) -> None:
    connection = store_in(tmp_path)
    writer = StoreWriter(connection)
    pages = writer.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0]).result(60)
    writer.write(lambda c: c.execute(f"PRAGMA max_page_count={pages}").fetchone()).result(60)
    large = "x" * 1_000_000
    with pytest.raises(sqlite3.OperationalError, match="full"):
        writer.write(lambda c: submitted(c, environment={"LARGE": large})).result(60)
    writer.write(lambda c: c.execute("PRAGMA max_page_count=1000000").fetchone()).result(60)
    assert writer.write(submitted).result(60).id == 1
    writer.close()


def test_one_who_gives_up_does_not_end_the_writer(tmp_path: Path) -> None:
    writer = StoreWriter(store_in(tmp_path))
    goes_on, is_taken = threading.Event(), threading.Event()

    def waits(_: sqlite3.Connection) -> bool:
        is_taken.set()
        return goes_on.wait(60)

    first = writer.write(waits)
    assert is_taken.wait(60)
    assert not first.cancel(), "it is being carried out"
    assert writer.write(submitted).cancel()
    goes_on.set()
    assert writer.write(submitted).result(60).id == 1, "what was given up is not there"
    writer.close()
