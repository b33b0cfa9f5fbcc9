"""A store of a pool without a server, and rows for it.

The connections are closed after each test of `tests/unit/pool`.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from moiety.agent.system.paths import Directory
from moiety.pool.model.records import Submission, WorkRow
from moiety.pool.paths import PoolPaths
from moiety.pool.store import changes, rows
from moiety.pool.store.database import connect, reader
from moiety.pool.store.schema import migrate

_opened: list[sqlite3.Connection] = []


def paths_in(folder: Path) -> PoolPaths:
    """The paths of a pool in a folder of a test."""
    paths = PoolPaths(Directory(folder))
    paths.workloads.mkdir(parents=True, exist_ok=True)
    return paths


def store_in(folder: Path) -> sqlite3.Connection:
    """An empty store that this process writes to."""
    connection = writing_in(folder)
    migrate(connection)
    return connection


def writing_in(folder: Path) -> sqlite3.Connection:
    """A connection that writes to a store as it is."""
    _opened.append(connect(paths_in(folder)))
    return _opened[-1]


def reading_in(folder: Path) -> sqlite3.Connection:
    """A connection that only reads the store in this folder."""
    _opened.append(reader(paths_in(folder)))
    return _opened[-1]


def close_stores() -> None:
    """Close all connections that were opened here."""
    while _opened:
        _opened.pop().close()


def submission(**values: object) -> Submission:
    """A program that is submitted."""
    asked: dict[str, object] = {"program": "/bin/true", "argv": ["true"], "cwd": "/tmp"}
    return Submission(**(asked | values))  # type: ignore[arg-type]


def submitted(connection: sqlite3.Connection, now_s: float = 100.0, **values: object) -> WorkRow:
    """A workload that waits."""
    number = changes.submit(connection, submission(**values), 1000, "ann", now_s)
    return rows.workload(connection, number)
