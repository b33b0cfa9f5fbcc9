"""A store of a pool without a server, and rows for it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from moiety.agent.system.paths import Directory
from moiety.pool.model.records import Submission, WorkRow
from moiety.pool.paths import PoolPaths
from moiety.pool.store import changes, rows
from moiety.pool.store.database import connect
from moiety.pool.store.schema import migrate


def paths_in(folder: Path) -> PoolPaths:
    """The paths of a pool in a folder of a test."""
    paths = PoolPaths(Directory(folder))
    paths.workloads.mkdir(parents=True, exist_ok=True)
    return paths


def store_in(folder: Path) -> sqlite3.Connection:
    """An empty store that this process writes to."""
    connection = connect(paths_in(folder))
    migrate(connection)
    return connection


def submission(**values: object) -> Submission:
    """A program that is submitted."""
    asked: dict[str, object] = {"program": "/bin/true", "argv": ["true"], "cwd": "/tmp"}
    return Submission(**(asked | values))  # type: ignore[arg-type]


def submitted(connection: sqlite3.Connection, now_s: float = 100.0, **values: object) -> WorkRow:
    """A workload that waits."""
    number = changes.submit(connection, submission(**values), 1000, "ann", now_s)
    return rows.workload(connection, number)
