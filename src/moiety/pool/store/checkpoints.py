"""Moves what was committed from the log into the database, beside the writer.

SQLite would do it within the commit that makes the log long: one answer in some hundred would wait
for the disk several times longer than the others.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOG_BYTES: Final = 16 << 20
"""What the log grows by before its content is moved."""
LOG_MAX_BYTES: Final = 128 << 20
"""From here on the log is emptied as well, for which the writer waits."""
CHANGES: Final = 4000
"""Rows that are written before the log's content is moved."""
BUSY_S: Final = 0.1
"""How long the writer waits for readers, at most, until the log is emptied."""


class Checkpoints:
    """A thread with a connection that only moves the log's content."""

    def __init__(self, database: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        """`connect` opens a connection of its own."""
        self._log = Path(f"{database}-wal")
        self._connection = connect()
        self._connection.execute(f"PRAGMA busy_timeout={round(BUSY_S * 1000)}")
        self._wake = threading.Event()
        self._is_open = True
        self._moved_at = 0
        self._size_then = 0
        self.moved = 0
        """How often the log's content was moved."""
        self._thread = threading.Thread(target=self._run, name="store-checkpoints", daemon=True)
        self._thread.start()

    def committed(self, rows: int) -> None:
        """Called by the writer after a commit, with the number of rows that it has ever changed."""
        size = self._size()
        if rows - self._moved_at >= CHANGES or size - self._size_then >= LOG_BYTES:
            self._moved_at, self._size_then = rows, size
            self._wake.set()

    def close(self) -> None:
        """End the thread, and close its connection."""
        self._is_open = False
        self._wake.set()
        self._thread.join()

    def _size(self) -> int:
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0

    def _run(self) -> None:
        while self._wake.wait() and self._is_open:
            self._wake.clear()
            with contextlib.suppress(sqlite3.Error):  # the disk is full, say: the log stays
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if self._size() >= LOG_MAX_BYTES:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    self._size_then = 0
                self.moved += 1
        self._connection.close()
