"""What the engine learns from the rows of the store: run times, and the credit of projects.

A row says what became of a workload; what is different from what was learned before is an event.
So an engine that begins anew needs what it knew at some change of the store, and the rows that
changed after it: nothing is lost if it is killed between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from moiety.policy.memory import (
    Began,
    Divided,
    Ended,
    Event,
    Foreseen,
    Passed,
    PolicyMemory,
    Stopped,
    Submitted,
    learn,
)
from moiety.policy.model.queues import Queue
from moiety.policy.model.workloads import Workload
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS, WorkState

KNOWN_MAX: Final = 200
"""The most work of one likeness that waits and has a worth: the oldest. What came later is served
after it, by its age; so a user with 100,000 workloads takes no more memory than one with 200."""
SAVE_S: Final = 60.0
"""The shortest time between two times at which it is kept."""
SAVE_WORK: Final = 5000
"""With this much work in it, twice that time passes."""
SAME_S: Final = 1e-3
"""Times that differ by less are equal."""
SET_BACK_S: Final = 300.0
"""A clock that was set back by less stands still until it is there again."""

Likeness = tuple[str, str, object]


class PoolMemory:
    """The engine's memory of one pool."""

    def __init__(self, content: bytes | None = None) -> None:
        """`content` is what `dump` gave; one that cannot be read is as none."""
        saved = _decoded(content)
        self.memory = PolicyMemory() if saved is None else PolicyMemory.load(saved["memory"])
        self.change: int = 0 if saved is None else saved["change"]
        """The change of the store up to which it has learned."""
        self._now_s: float = 0.0 if saved is None else saved["now_s"]
        self._saved_s = self._now_s
        self._events = 0
        """How much it has learned since it was saved."""
        self._divided: tuple[int, tuple[Queue, ...], float] | None = None
        self._later: dict[Likeness, deque[int]] = {}
        """Work that waits beyond `KNOWN_MAX` of its likeness, the oldest first."""
        self._waiting: dict[Likeness, set[str]] = {}
        """Work that waits, and has a worth."""
        self._like: dict[str, Likeness] = {}
        """The likeness of all work in `_waiting`."""

    def divide(self, gpus: int, queues: tuple[Queue, ...], monday_s: float) -> None:
        """Note the GPUs, and the projects among which they are divided."""
        if self._divided != (gpus, queues, monday_s):
            self._divided = gpus, queues, monday_s
            learn(self.memory, Divided(gpus, queues, monday_s))

    def learn(
        self,
        rows: Iterable[WorkRow],
        workload_of: Callable[[WorkRow], Workload],
        live: Mapping[int, WorkRow],
        now_s: float,
        change: int,
    ) -> None:
        """Learn from rows that have changed, until a change of the store.

        `live` has all rows of work that is not over, as they are now.
        """
        for row in sorted(rows, key=lambda row: (_at_s(row, now_s), row.id)):
            if not row.opportunistic:
                self._row(row, workload_of, now_s)
        self._fill(live, workload_of)
        if now_s < self._now_s - SET_BACK_S:  # else no project would gain credit until then
            self._now_s = 0.0
        self._pass(now_s)
        self.change = change

    def foreseen(self, name: str, at_s: float, foreseen_s: float) -> None:
        """Note what was said of a begin: when it comes, it tells how true that was."""
        if self.memory.knows(name):
            self._event(Foreseen(name, at_s, foreseen_s))

    def dump(self, now_s: float) -> bytes:
        """What the store is to keep; empty: it is not time for that yet."""
        content = self.memory.dump()
        wait_s = SAVE_S * (1 + len(content["work"]) // SAVE_WORK)
        if not self._events or 0 <= now_s - self._saved_s < wait_s:
            return b""
        self._events, self._saved_s = 0, now_s
        saved = {"change": self.change, "now_s": self._now_s, "memory": content}
        return msgspec.msgpack.encode(saved)

    def _row(self, row: WorkRow, workload_of: Callable[[WorkRow], Workload], now_s: float) -> None:
        name = str(row.id)
        if row.state is WorkState.PENDING or row.state is WorkState.HELD:
            if self.memory.since_s(name) is not None:  # what it had done is lost
                self._pass(now_s)
                self._event(Stopped(name, 0.0))
            if row.state is WorkState.PENDING:
                self._wait(row, workload_of(row))
            return
        self._leave_line(name)
        if row.began_s is None:
            if self.memory.knows(name):
                self._event(Ended(name, None))
            return
        if not self.memory.knows(name):
            self._event(Submitted(workload_of(row)))
        if row.state in ENDS:
            ended_s = row.ended_s or now_s
            self._pass(ended_s)
            self._event(Ended(name, max(ended_s - row.began_s - row.suspended_s, 0.0)))
        elif row.suspended_since_s is not None:
            if self.memory.since_s(name) is not None:
                self._pass(row.suspended_since_s)
                done_s = row.suspended_since_s - row.began_s - row.suspended_s
                self._event(Stopped(name, max(done_s, 0.0)))
        else:
            since_s, known_s = row.began_s + row.suspended_s, self.memory.since_s(name)
            if known_s is None or abs(known_s - since_s) > SAME_S:
                self._pass(row.began_s)
                self._event(Began(name, since_s))

    def _wait(self, row: WorkRow, workload: Workload) -> None:
        name = workload.name
        like = (workload.queue, workload.user, workload.subgroups)
        if name in self._like:
            return
        waiting = self._waiting.setdefault(like, set())
        if self.memory.knows(name) or len(waiting) < KNOWN_MAX:
            waiting.add(name)
            self._like[name] = like
            if not self.memory.knows(name):
                self._event(Submitted(workload))
        else:
            self._later.setdefault(like, deque()).append(row.id)

    def _leave_line(self, name: str) -> None:
        like = self._like.pop(name, None)
        if like is not None:
            self._waiting[like].discard(name)

    def _fill(
        self, live: Mapping[int, WorkRow], workload_of: Callable[[WorkRow], Workload]
    ) -> None:
        """Give a worth to the next ones of each likeness that has fewer now."""
        for like, later in list(self._later.items()):
            waiting = self._waiting[like]
            while later and len(waiting) < KNOWN_MAX:
                row = live.get(later.popleft())
                if row is not None and row.state is WorkState.PENDING:
                    self._wait(row, workload_of(row))
            if not later:
                del self._later[like]

    def _pass(self, at_s: float) -> None:
        """Let time pass; what came before, by a clock that was set back, lets none pass."""
        if at_s > self._now_s:
            self._now_s = at_s
            learn(self.memory, Passed(at_s))

    def _event(self, event: Event) -> None:
        learn(self.memory, event)
        self._events += 1


def with_milli(workload: Workload, gpu_memory_mib: int) -> Workload:
    """The same, with thousandths of a GPU where it asks for memory alone: its use is counted."""
    groups = tuple(
        replace(
            group,
            shape=replace(group.shape, gpu_milli=min(group.shape.milli_on(gpu_memory_mib), 1000)),
        )
        if group.shape.gpus and not group.shape.gpu_milli
        else group
        for group in workload.subgroups
    )
    return replace(workload, subgroups=groups)


def _at_s(row: WorkRow, now_s: float) -> float:
    """When a row became what it is, as far as that is known."""
    if row.state in ENDS:
        return row.ended_s or now_s
    if row.began_s is not None:
        return row.suspended_since_s or row.began_s
    return row.submitted_s


def _decoded(content: bytes | None) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        saved: dict[str, Any] = msgspec.msgpack.decode(content)
        PolicyMemory.load(saved["memory"])
        return saved if {"change", "now_s"} <= saved.keys() else None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError):
        return None
