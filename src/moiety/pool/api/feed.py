"""Tells many watchers what changes in the pool; the store is read once for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from moiety.model.errors import TooManyWatchers
from moiety.pool.model.records import WorkRow
from moiety.pool.store import rows

LOOK_S: Final = 1.0
"""How late a change may be seen that did not wake anybody."""
TOGETHER_S: Final = 0.05
"""Changes within this time are read at once."""
BEHIND_MAX: Final = 1000
"""Changes that are kept for a watcher; one that is further behind reads its list anew."""
WATCHERS_MAX: Final = 2048
WATCHERS_OF_USER: Final = 1024
Change = tuple[int, WorkRow]


@dataclass(slots=True, eq=False)
class Watcher:
    """One who is told: the changes that were not sent yet, or that there were too many."""

    uid: int
    position: int
    """The last change that it knows."""
    waiting: deque[Change] = field(default_factory=deque)
    is_behind: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, found: list[Change]) -> None:
        """Keep changes for it; if they are too many, only that there were some."""
        if len(self.waiting) + len(found) > BEHIND_MAX or self.is_behind:
            self.waiting.clear()
            self.is_behind = True
        else:
            self.waiting.extend(found)
        self.position = found[-1][0]
        self.wake.set()

    async def next(self, timeout_s: float) -> list[Change] | None:
        """What has changed; nothing after this time; None: more than is kept."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), timeout_s)
        self.wake.clear()
        if self.is_behind:
            self.is_behind = False
            return None
        found = list(self.waiting)
        self.waiting.clear()
        return found


class EventFeed:
    """All watchers of a pool, and the task that reads for them while there are any."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None
        self._last = 0

    def watch(
        self,
        uid: int,
        after: int | None,
        reader: sqlite3.Connection,
        next_change: Callable[[float], Awaitable[None]],
    ) -> Watcher:
        """A watcher of what comes after a change, or of what comes from now on.

        Raises TooManyWatchers.
        """
        own = sum(each.uid == uid for each in self._watchers)
        if len(self._watchers) >= WATCHERS_MAX or own >= WATCHERS_OF_USER:
            raise TooManyWatchers(own)
        if self._task is None:
            self._last = rows.last_change(reader)
            self._task = asyncio.create_task(self._run(reader, next_change))
        watcher = Watcher(uid, self._last)
        if after is not None and after != self._last:
            found = rows.changes_after(reader, after, BEHIND_MAX + 1)
            known = [each for each in found if each[0] <= self._last]
            if after > self._last or len(known) > BEHIND_MAX:
                watcher.is_behind = True
            else:
                watcher.waiting.extend(known)
            watcher.wake.set()
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Forget a watcher; without any, nothing is read."""
        self._watchers.discard(watcher)
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(
        self, reader: sqlite3.Connection, next_change: Callable[[float], Awaitable[None]]
    ) -> None:
        while True:
            await next_change(LOOK_S)
            found = rows.changes_after(reader, self._last, BEHIND_MAX + 1)
            if found:
                self._last = rows.last_change(reader) if len(found) > BEHIND_MAX else found[-1][0]
                found[-1] = (self._last, found[-1][1])
                for watcher in self._watchers:
                    watcher.offer(found)
            await asyncio.sleep(TOGETHER_S)
