"""Copies of the store: made while it is written to, and put back while it is not."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from moiety.model.errors import BadArgument, FileExists, FileNotWritable, PoolRunning, StoreBroken
from moiety.pool.model.states import WorkState
from moiety.pool.store import backup as copies
from moiety.pool.store import changes, rows
from moiety.pool.store.backup import backup, restore
from moiety.pool.store.database import StoreFiles
from tests.support.pool_store import paths_in, reading_in, submitted

STARTED = """attempt 1
boot_id 99560dd2-1d3c-4139-9301-e92ca90b2678
supervisor 10 1234
child 11 1235
processes group
limits none
begin 1700000000.250000
"""


def names(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as store:
        return [name for (name,) in store.execute("SELECT name FROM workload ORDER BY id")]


def test_a_copy_is_made_while_the_pool_writes(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    files.writer.write(lambda c: submitted(c, name="one")).result(60)
    target = tmp_path / "copy.db"
    assert backup(paths, target) == target.stat().st_size
    files.writer.write(lambda c: submitted(c, name="two")).result(60)
    assert names(target) == ["one"]
    assert target.stat().st_mode & 0o777 == 0o600, "environments have secrets"
    assert sorted(each.name for each in tmp_path.iterdir() if "copy" in each.name) == ["copy.db"]
    with pytest.raises(FileExists, match="exists already"):
        backup(paths, target)
    for wrong in (tmp_path / "nosuch" / "copy.db", target / "copy.db"):
        with pytest.raises(FileNotWritable) as refused:
            backup(paths, wrong)
        assert refused.value.what.startswith(f"{wrong} cannot be written: No")
        assert "stdout" not in refused.value.hint
    files.close()


def test_a_copy_takes_the_place_of_the_store_and_the_old_one_stays(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    files.writer.write(lambda c: submitted(c, name="one")).result(60)
    backup(paths, tmp_path / "copy.db")
    files.writer.write(lambda c: submitted(c, name="two")).result(60)
    with pytest.raises(PoolRunning):
        restore(paths, tmp_path / "copy.db")
    files.close()
    old = restore(paths, tmp_path / "copy.db")
    assert old is not None
    assert (names(paths.database), names(old)) == (["one"], ["one", "two"])
    files = StoreFiles(paths)
    third = files.writer.write(submitted).result(60).id
    assert third == 3, "the number of one that never began is not given again either"
    files.close()


def test_a_log_of_the_old_store_goes_with_it(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    files.writer.write(lambda c: submitted(c, name="one")).result(60)
    backup(paths, tmp_path / "copy.db")
    files.writer.write(lambda c: submitted(c, name="two")).result(60)
    killed = {each.name: each.read_bytes() for each in paths.folder.glob("pool.db*")}
    files.close()
    for name, content in killed.items():  # as SIGKILL leaves them
        (paths.folder / name).write_bytes(content)
    old = restore(paths, tmp_path / "copy.db")
    assert old is not None
    assert (names(paths.database), names(old)) == (["one"], ["one", "two"])


def test_what_is_no_whole_copy_changes_nothing(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    files.writer.write(lambda c: submitted(c, name="one")).result(60)
    backup(paths, tmp_path / "copy.db")
    files.close()
    content = (tmp_path / "copy.db").read_bytes()
    (tmp_path / "short.db").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.db").write_text("no store\n")
    (tmp_path / "empty.db").write_bytes(b"")
    for name in ("short.db", "text.db", "empty.db"):
        with pytest.raises(StoreBroken, match=name):
            restore(paths, tmp_path / name)
    with pytest.raises(BadArgument, match="is no file"):
        restore(paths, tmp_path / "missing.db")
    assert names(paths.database) == ["one"]
    assert [each.name for each in paths.folder.glob("*.new")] == []
    StoreFiles(paths).close()


def test_a_damaged_store_is_not_copied(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    for _ in range(50):
        files.writer.write(lambda c: submitted(c, environment={"A": "x" * 3000}))
    files.close()
    content = bytearray(paths.database.read_bytes())
    for at in range(4096, len(content), 4096):
        content[at : at + 64] = b"\xff" * 64
    paths.database.write_bytes(content)
    with pytest.raises(StoreBroken):
        backup(paths, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert list(tmp_path.glob(".copy*")) == []


def test_no_number_is_given_twice_and_what_has_begun_since_is_held(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    files = StoreFiles(paths)
    for name in ("begins", "waits"):
        files.writer.write(partial(submitted, name=name)).result(60)
    backup(paths, tmp_path / "copy.db")
    files.close()
    for number in (1, 9):  # 9 was submitted after the copy was made
        folder = paths.of_workload(number)
        folder.mkdir()
        (folder / "started").write_text(STARTED)
    restore(paths, tmp_path / "copy.db")
    files = StoreFiles(paths)
    read = reading_in(tmp_path)
    begun, waits = rows.workload(read, 1), rows.workload(read, 2)
    assert (begun.state, begun.attempt, begun.reason) == (WorkState.HELD, 1, copies.UNKNOWN)
    assert (waits.state, waits.attempt) == (WorkState.PENDING, 0)
    assert files.writer.write(submitted).result(60).id == 10
    released = files.writer.write(lambda c: changes.transition(c, 1, WorkState.PENDING, reason=""))
    assert released.result(60).attempt == 1
    again = files.writer.write(lambda c: changes.begin_attempt(c, 1, 2, [0], 200.0)).result(60)
    assert again is not None
    files.close()
