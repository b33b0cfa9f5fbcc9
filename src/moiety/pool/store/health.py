"""Whether a file is a whole store: a damaged one is named, and no new one takes its place."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Final

from moiety.model.errors import StoreBroken, StoreNewer
from moiety.pool.paths import PoolPaths
from moiety.pool.store.schema import MIGRATIONS

CHECKED_BYTES: Final = 32 << 20
"""A store of at most this size is checked whole when it is opened; that takes half a second."""
TABLES: Final = frozenset({"workload", "body", "attempt", "project", "audit"})
HEADER: Final = b"SQLite format 3\0"


def must_be_usable(paths: PoolPaths) -> None:
    """Raise StoreBroken or StoreNewer unless the store is whole, or there never was one.

    Nothing is written: a file of another program stays as it is.
    """
    must_not_be_lost(paths)
    must_be_a_file_of_sqlite(paths.database)
    if _size(paths.database):
        address = f"file:{paths.database}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            must_be_whole(connection, paths.database)


def must_not_be_lost(paths: PoolPaths) -> None:
    """Raise StoreBroken if there is no store where there was one."""
    if not _size(paths.database):
        if _size(log_of(paths.database)):
            raise StoreBroken(str(paths.database), "it is gone, and its log is there")
        if paths.workloads.is_dir() and any(paths.workloads.iterdir()):
            raise StoreBroken(str(paths.database), "it is gone, and there are workloads")


def must_be_a_file_of_sqlite(database: Path) -> None:
    """Raise StoreBroken for another file, and for one that is shorter than it says."""
    try:
        with database.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return
    if not head:
        return
    if not head.startswith(HEADER) or len(head) < 100:
        raise StoreBroken(str(database), "it is no database of SQLite")
    page = int.from_bytes(head[16:18], "big") or 65536
    expected = page * int.from_bytes(head[28:32], "big")
    found = _size(database)
    if found < expected and not _size(log_of(database)):
        raise StoreBroken(str(database), f"it has {found} bytes instead of {expected}")


def must_be_whole(connection: sqlite3.Connection, path: Path, *, whole: bool = False) -> int:
    """Raise StoreBroken or StoreNewer unless this is a store; returns its version, 0: an empty one.

    A large one is checked whole only with `whole`; what is damaged in it is found when it is read.
    """
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreNewer(version, len(MIGRATIONS))
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if found and not (version and found >= TABLES):
            raise StoreBroken(str(path), "it is a database of another program")
        if whole or _size(path) <= CHECKED_BYTES:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said != "ok":
                raise StoreBroken(str(path), " ".join(said.split())[:200])
    except sqlite3.DatabaseError as error:
        raise StoreBroken(str(path), str(error)) from None
    return int(version)


def log_of(database: Path) -> Path:
    """What was committed and is not in the database itself yet."""
    return Path(f"{database}-wal")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
