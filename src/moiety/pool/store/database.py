"""Opens the store of a pool: its lock, its database, and connections that only read."""

from __future__ import annotations

import os
import sqlite3
from typing import Final

from moiety.agent.system import file_lock
from moiety.model.errors import PoolRunning, StoreBroken
from moiety.pool.paths import PoolPaths
from moiety.pool.store import health
from moiety.pool.store.checkpoints import Checkpoints
from moiety.pool.store.schema import migrate
from moiety.pool.store.writer import StoreWriter

BUSY_S: Final = 10.0
PREDECESSOR_S: Final = 2.0
"""How long a server that was told to end may keep the lock."""


class StoreFiles:
    """The store of a pool, held by this process alone."""

    def __init__(self, paths: PoolPaths) -> None:
        """Raises PoolRunning, StoreBroken or StoreNewer."""
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths.workloads.mkdir(mode=0o711, exist_ok=True)
        try:
            self._lock = file_lock.take(paths.lock, f"pid {os.getpid()}", PREDECESSOR_S)
        except file_lock.LockHeld as held:
            raise PoolRunning(str(paths.folder), held.owner) from None
        try:
            health.must_be_usable(paths)
            connection = connect(paths)
            migrate(connection)
            connection.execute("PRAGMA wal_autocheckpoint=0")
            self.checkpoints = Checkpoints(paths.database, lambda: connect(paths))
        except sqlite3.DatabaseError as error:
            self._lock.release()
            raise StoreBroken(str(paths.database), str(error)) from None
        except BaseException:
            self._lock.release()
            raise
        self.writer = StoreWriter(connection, self.checkpoints.committed)

    def close(self) -> None:
        """Finish what was asked for, and let another process have the store."""
        self.checkpoints.close()
        self.writer.close()
        self._lock.release()


def connect(paths: PoolPaths) -> sqlite3.Connection:
    """A connection that writes, for the one writer."""
    connection = sqlite3.connect(
        paths.database, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    os.chmod(paths.database, 0o600)  # environments have secrets
    return connection


def reader(paths: PoolPaths) -> sqlite3.Connection:
    """A connection that only reads; the store exists already."""
    connection = sqlite3.connect(
        f"file:{paths.database}?mode=ro",
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    connection.row_factory = sqlite3.Row
    return connection
