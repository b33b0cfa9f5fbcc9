"""Copies of the store: made while the pool runs, checked, and put back while it does not."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from moiety.agent.system import file_lock
from moiety.model.errors import (
    BadArgument,
    FileExists,
    FileNotWritable,
    NotAllowed,
    PoolRunning,
    StoreBroken,
)
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.records import Started, read_started
from moiety.pool.store.health import log_of, must_be_a_file_of_sqlite, must_be_whole
from moiety.pool.store.schema import migrate

PAGES: Final = 4096
"""Pages that are copied at a time; the pool goes on between them."""
UNKNOWN: Final = (
    "the backup does not know what became of it: it had begun once more; "
    "`moiety release` runs it again"
)


def backup(paths: PoolPaths, target: Path) -> int:
    """Write a copy of the store as it is now; returns its size in bytes.

    Raises FileExists, FileNotWritable, StoreBroken for a damaged store, or NotAllowed.
    """
    if target.exists():
        raise FileExists(str(target), "another name")
    _must_read(paths.database)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        _copy(paths.database, part)
        os.rename(part, target)
        _sync(target.parent)
    except OSError as error:
        refused = FileNotWritable(str(target), error.strerror or str(error))
        refused.hint = "a folder that you may write to and that has room"
        raise refused from None
    finally:
        with contextlib.suppress(OSError):  # the folder is none, say
            part.unlink()
    return target.stat().st_size


def restore(paths: PoolPaths, source: Path) -> Path | None:
    """Put a copy in the place of the store; returns where the old store is now, if there was one.

    Raises PoolRunning, StoreBroken for a file that is no whole store, StoreNewer or OSError.
    """
    if not source.is_file():
        raise BadArgument(f"{source} is no file", "a file of `moiety backup`")
    paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = file_lock.take(paths.lock, f"pid {os.getpid()}", 0.0)
    except file_lock.LockHeld as held:
        raise PoolRunning(str(paths.folder), held.owner) from None
    new = paths.database.with_suffix(".new")
    try:
        must_be_a_file_of_sqlite(source)
        new.unlink(missing_ok=True)
        _copy(source, new)
        _settle(paths, new)
        return _replace(paths, new)
    finally:
        new.unlink(missing_ok=True)
        lock.release()


def _must_read(database: Path) -> None:
    if not os.access(database, os.R_OK):
        if database.parent.is_dir() and not os.access(database.parent, os.X_OK):
            raise NotAllowed("the store of this pool is not yours", "as root")
        if database.exists():
            raise NotAllowed("the store of this pool is not yours", "as root")
        raise StoreBroken(str(database), "there is none")


def _copy(source: Path, target: Path) -> None:
    """Copy one store, check the copy, and have it on the disk."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as reading,
            contextlib.closing(sqlite3.connect(target, isolation_level=None)) as writing,
        ):
            reading.backup(writing, pages=PAGES)
            writing.execute("PRAGMA journal_mode=DELETE").fetchone()  # one file, without a log
            if not must_be_whole(writing, target, whole=True):
                raise StoreBroken(str(source), "it is empty")
    except sqlite3.DatabaseError as error:
        raise StoreBroken(str(source), str(error)) from None
    except StoreBroken as error:
        raise StoreBroken(str(source), error.problem) from None
    _sync(target)


def _settle(paths: PoolPaths, new: Path) -> None:
    """Give no number twice, and hold what has begun since the copy was made."""
    used = [int(each.name) for each in paths.workloads.glob("*") if each.name.isdecimal()]
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
        migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'workload'",
            (max([_last_number(paths.database), *used]),),
        )
        waiting = connection.execute(
            "SELECT id, attempt FROM workload WHERE state IN ('pending', 'held')"
        ).fetchall()
        last = connection.execute("SELECT max(changed) FROM workload").fetchone()[0] or 0
        for number, attempt in waiting:
            begun = read_started(paths.of_workload(number)) if number in used else None
            begun_as = begun.attempt if isinstance(begun, Started) else attempt + 1
            if begun is not None and begun_as > attempt:
                last += 1
                connection.execute(
                    "UPDATE workload SET state = 'held', attempt = ?, reason = ?, changed = ? "
                    "WHERE id = ?",
                    (begun_as, UNKNOWN, last, number),
                )
        connection.execute("COMMIT")
    _sync(new)


def _last_number(database: Path) -> int:
    """The last number that the present store has given; 0 if it is damaged, or there is none."""
    try:
        opened = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        with contextlib.closing(opened) as connection:
            found = connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'workload'"
            ).fetchone()
    except sqlite3.DatabaseError:
        return 0
    return int(found[0]) if found else 0


def _replace(paths: PoolPaths, new: Path) -> Path | None:
    """Put the new store in its place; a server that begins in between finds none and says so."""
    owner = paths.folder.stat()
    os.chown(new, owner.st_uid, owner.st_gid)
    old = None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    if paths.database.exists():
        old = paths.folder / f"pool-before-{stamp}.db"
        if old.exists():
            old = paths.folder / f"pool-before-{stamp}-{os.getpid()}.db"
        os.rename(paths.database, old)
    with contextlib.suppress(FileNotFoundError):
        os.rename(log_of(paths.database), log_of(old or paths.folder / f"pool-before-{stamp}.db"))
    Path(f"{paths.database}-shm").unlink(missing_ok=True)
    os.rename(new, paths.database)
    _sync(paths.folder)
    return old


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
