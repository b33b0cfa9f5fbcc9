"""The one writer of the store: what many ask for at one time is committed together.

A commit waits for the disk. Statements that come meanwhile wait for the next commit, so that a
thousand submissions a second need far fewer than a thousand commits.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

T = TypeVar("T")
TOGETHER_MAX: Final = 512
"""The most that one commit holds."""
Work = Callable[[sqlite3.Connection], Any]


@dataclass(slots=True, eq=False)
class _Write:
    """A function of the connection, and the promise of what it returns."""

    work: Work
    future: Future[Any] = field(default_factory=Future)


class StoreWriter:
    """A thread with the only connection that writes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        committed: Callable[[int], None] = lambda _: None,
    ) -> None:
        """The connection belongs to the thread from now on.

        `committed` is called after each commit, with the number of rows changed so far.
        """
        self._connection = connection
        self._committed = committed
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self.commits = 0
        """The number of commits so far."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """What `work` returns, once it is on the disk; an error of it undoes only its own part."""
        item = _Write(work)
        self._queue.put(item)
        return item.future

    def close(self) -> None:
        """Finish what was asked for, and close the connection."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            items = [self._queue.get()]
            while len(items) < TOGETHER_MAX and not self._queue.empty():
                items.append(self._queue.get())
            is_open = None not in items
            self._commit([item for item in items if item is not None])
        self._connection.close()

    def _commit(self, items: list[_Write]) -> None:
        """Carry out these in one transaction; all of them learn when it is durable.

        Who has given up before gets nothing; who gives up later does not end this thread.
        """
        items = [item for item in items if item.future.set_running_or_notify_cancel()]
        results: list[tuple[_Write, Any, BaseException | None]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results += [(item, *self._attempt(item.work)) for item in items]
            self._connection.execute("COMMIT")
            self.commits += 1
            self._committed(self._connection.total_changes)
        except sqlite3.Error as error:  # the disk is full, say
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            results = [(item, None, error) for item in items]
        for item, result, problem in results:
            if problem is None:
                item.future.set_result(result)
            else:
                item.future.set_exception(problem)

    def _attempt(self, work: Work) -> tuple[Any, BaseException | None]:
        self._connection.execute("SAVEPOINT one")
        try:
            result = work(self._connection)
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # of the disk, which may have undone all of it: the whole commit fails
            self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
            return None, error
        self._connection.execute("RELEASE one")
        return result, None
