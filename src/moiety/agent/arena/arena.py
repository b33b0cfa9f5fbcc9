"""The host arena: memory for evicted data, made ahead of need and lent to processes in segments.

The ledger (plan.py) decides which segments are made, given and dropped; this module does it. Pages
are made in a thread of their own (prefault.py), so no command and no hand-off waits for them.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from moiety.agent.arena import plan as do
from moiety.agent.arena import prefault
from moiety.agent.arena.host_memory import spare_bytes
from moiety.agent.arena.plan import Segments
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.event_loop import EventLoop, Timer
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.devices.budget import GpuBudget
from moiety.model.units import format_bytes
from moiety.wire.layout import Type
from moiety.wire.messages import ArenaMessage

SMALLEST_BYTES: Final = 16 << 20
LARGEST_BYTES: Final = 1 << 30
PAUSE_S: Final = 0.02
"""Seconds between two looks at what is needed."""
LOOK_S: Final = 1.0
"""Seconds between two looks at the host's memory while there are clients that do something."""
REST_S: Final = 5.0
"""The same while nothing happens: what happens next is followed by a look."""
RESERVE_BYTES: Final = 256 << 20
"""Host memory that stays free."""
UNUSED_PART: Final = 8
STEPS: Final = 16
"""Number of steps in which the size is lowered and raised."""
GROWTH_PART: Final = 8
"""An arena that follows the host's memory grows by at least this part of its size."""
DESCRIPTORS: Final = 1 << 16

_MATTERS: Final = (ev.AllocRequest, ev.Free, ev.Attach, ev.Detach, ev.Left, ev.Pinned, ev.ShareSet)


class Memory(Protocol):
    """What makes segments: prefault.py, or a stand-in."""

    def make(self, size: int, node: int | None, stopped: Callable[[], bool], /) -> int:
        """Return the descriptor of a new segment."""


@dataclass(frozen=True, slots=True)
class ArenaSize:
    """How large an arena may become: `ready_bytes` of `size_bytes` are prepared at most.

    `moving_bytes` of it hold the bytes that move at one time; they are promised to no tenant.
    """

    size_bytes: int
    ready_bytes: int
    segment_bytes: int
    moving_bytes: int
    host_part: float = 0.0
    """The part of the host's memory that it grows to as that becomes more; 0: it is fixed."""

    @classmethod
    def of(
        cls, size: int, ready: int | None, budgets: Iterable[GpuBudget], host_part: float = 0.0
    ) -> ArenaSize:
        """Return the size of the arena for GPUs with these budgets."""
        each = list(budgets)
        near = max((b.capacity_bytes for b in each), default=0) // 8
        segment = 1 << max(0, near.bit_length() - 1)
        segment = max(SMALLEST_BYTES, min(LARGEST_BYTES, segment), *(b.chunk_bytes for b in each))
        limit = size if ready is None else min(size, ready)
        return cls(size, limit, segment, sum(b.moving_bytes for b in each), host_part)

    def grown(self, host_bytes: int) -> ArenaSize:
        """The same where the host has this much for it and all else; itself if that is no more."""
        size = int(host_bytes * self.host_part)
        if size < self.size_bytes + max(self.segment_bytes, self.size_bytes // GROWTH_PART):
            return self
        ready = size if self.ready_bytes == self.size_bytes else self.ready_bytes
        return replace(self, size_bytes=size, ready_bytes=ready)


class Arena:
    """All host memory that one agent prepares, and the tenants that have parts of it."""

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        extent: ArenaSize,
        *,
        clients: Mapping[int, Client],
        gpus: Gpus,
        arbiter: Arbiter,
        journal: Journal,
        memory: Memory = prefault,
        available: Callable[[], int] = spare_bytes,
    ) -> None:
        """Begin empty; `on_event` and `on_left` say when the plan may have changed."""
        self.extent = extent
        self.size_bytes = extent.size_bytes
        """The present size: less than wanted while the host is short of memory."""
        # Numbers of different agents differ: a client may have some of each.
        self.segments = Segments(
            extent.segment_bytes, extent.ready_bytes, next_number=(os.getpid() << 32) + 1
        )
        self._runtime = runtime
        self._loop = loop
        self._clients = clients
        self._gpus = gpus
        self._arbiter = arbiter
        self._journal = journal
        self._memory = memory
        self._available = available
        self._fds: dict[int, int] = {}
        self._due: Timer | None = None
        self._due_s = math.inf
        self._looked_s = -math.inf
        self._is_at_rest = True
        """Whether the arbiter has taken in no event since the last look."""
        self._free_bytes = 0
        self._stopped = False
        self.on_grown: list[Callable[[int], None]] = []
        """Called with the size in bytes when the arena became larger than it ever was."""
        self.on_overdue: list[Callable[[Client], None]] = []
        """Called, again and again, with a process that does not answer what it can give back."""
        self.deadline_s: Callable[[], float] = lambda: self.segments.deadline_s
        """How long a process may take to answer, in seconds."""
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="arena")
        _raise_descriptor_limit()

    @property
    def prepares(self) -> bool:
        """Whether programs may ask for segments here."""
        return self.extent.ready_bytes >= self.extent.segment_bytes

    @property
    def ready_bytes(self) -> int:
        """Bytes of the segments whose pages exist, given to a tenant or not."""
        return self.segments.made_bytes

    def used_bytes(self) -> int:
        """Bytes of all tenants that are evicted now."""
        return self._arbiter.evicted_bytes()

    # What processes say

    def need(self, client: Client, size: int) -> None:
        """A process waits for this many more bytes."""
        self.segments.asked(client.number, size, self._most_bytes(client))
        self._update()

    def back(self, client: Client, number: int) -> None:
        """A process has unmapped a segment; number 0: it has no more empty segments."""
        if number:
            self.segments.returned(client.number, number)
        else:
            self.segments.gave_all(client.number)
        self._update()

    def adopt(self, client: Client, number: int, size: int) -> None:
        """A process that resumed has mapped this segment of this agent or of the last one.

        Beyond what the process may have, its word changes nothing.
        """
        if self.segments.held_bytes(client.number) < self._most_bytes(client):
            size = max(SMALLEST_BYTES, min(LARGEST_BYTES, size))
            self.segments.adopted(client.number, number, size)

    def _most_bytes(self, client: Client) -> int:
        """The most host memory that a process may have: for all that it has allocated.

        A part of it comes on top, because pieces of different sizes leave some unused.
        """
        allocated = self._arbiter.allocated_bytes(client.number)
        return allocated + allocated // UNUSED_PART

    def stop(self) -> None:
        """Make no more segments, and close all; a process keeps what it has mapped."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)
        if self._due:
            self._due.cancel()
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    # When to look

    def on_event(self, event: ev.Event) -> None:
        """The arbiter has taken in an event."""
        if isinstance(event, _MATTERS):
            self._look_at(self._runtime.now() + PAUSE_S)
        elif self._is_at_rest:
            self._look_at(max(self._runtime.now() + PAUSE_S, self._looked_s + LOOK_S))
        self._is_at_rest = False

    def lent_to(self, client: Client) -> str:
        """The name of the memfds that a process has, and has not given back; empty: none."""
        return prefault.NAME if self.segments.held_bytes(client.number) > 0 else ""

    def on_resumed(self, before: Client, client: Client) -> None:
        """A process whose connection broke has another."""
        self.segments.moved(before.number, client.number)

    def on_left(self, client: Client) -> None:
        """A process is gone."""
        self.segments.left(client.number)
        self._look_at(self._runtime.now())

    def _look_at(self, when_s: float) -> None:
        if self._stopped or when_s >= self._due_s:
            return
        if self._due:
            self._due.cancel()
        self._due_s = when_s
        self._due = self._runtime.call_at(when_s, self._update)

    def _update(self) -> None:
        if self._stopped:
            return
        now_s = self._runtime.now()
        if self._due:
            self._due.cancel()
        self._due, self._due_s = None, math.inf
        if now_s - self._looked_s >= LOOK_S:
            self._look(now_s)
        if self.prepares:
            self.segments.needs = self._arbiter.host_needs()
            self.segments.deadline_s = self.deadline_s()
            may_make = self._free_bytes >= self.segments.segment_bytes
            is_short = self._free_bytes < 0
            for action in self.segments.plan(now_s, may_make=may_make, is_short=is_short):
                _DO[type(action)](self, action)
        if self._clients or self.segments.segments:
            next_s = REST_S if self._is_at_rest else LOOK_S
            self._is_at_rest = True
            self._look_at(min(now_s + next_s, self.segments.due_s))

    def _look(self, now_s: float) -> None:
        """Measure the host's free memory, and promise as much of it as it has from now on."""
        self._looked_s = now_s
        self._free_bytes = self._available() - RESERVE_BYTES
        had = max(self.segments.made_bytes, self.used_bytes())
        self._grow(had + max(0, self._free_bytes))
        wanted = self.extent.size_bytes
        possible = had + max(0, self._free_bytes)
        step = max(1, wanted // STEPS)
        size = wanted if possible >= wanted else possible // step * step
        if size == self.size_bytes:
            return
        self.size_bytes = size
        reason = ""
        if size < wanted:
            reason = f"of {format_bytes(wanted)}, because the host is short of memory"
        self._runtime.log.warning("arena_set", size_bytes=size, wanted_bytes=wanted)
        what = "HostMemoryShort" if reason else "HostMemoryEnough"
        told = f"{format_bytes(size)} for evicted data"
        self._journal.often("arena", what, f"{told} {reason}" if reason else told)
        self._runtime.feed(ev.ArenaSet(max(0, size - self.extent.moving_bytes), reason))

    def _grow(self, host_bytes: int) -> None:
        grown = self.extent.grown(host_bytes)
        if grown is self.extent:
            return
        self.extent = grown
        self.segments.limit_bytes = grown.ready_bytes
        for call in self.on_grown:
            call(grown.size_bytes)

    # What the ledger decided

    def _make(self, action: do.Make) -> None:
        size = self.segments.segment_bytes
        numa_node = self._numa_node(action.tenant)
        self._free_bytes -= size
        self._run(action.number, lambda: self._memory.make(size, numa_node, self._is_stopped))

    def _run(self, number: int, work: Callable[[], int]) -> None:
        """Make a segment beside the loop; `_made` receives its descriptor."""

        def run() -> None:
            fd = -1
            try:
                fd = work()
            except InterruptedError:
                return
            except Exception as error:  # after any error the segment does not exist
                self._runtime.log.warning("host_memory_unavailable", problem=str(error))
            try:
                self._loop.call_soon_threadsafe(self._made, number, fd)
            except RuntimeError:  # the loop has ended
                if fd >= 0:
                    os.close(fd)

        self._worker.submit(run)

    def _made(self, number: int, fd: int) -> None:
        if self._stopped:
            if fd >= 0:
                os.close(fd)
            return
        if fd >= 0:
            self._fds[number] = fd
        else:
            self._free_bytes = 0  # until the next look
        self.segments.made(number, well=fd >= 0)
        self._update()

    def _give(self, action: do.Give) -> None:
        note = ArenaMessage(Type.ARENA, 0, action.number, self.segments.segment_bytes)
        client = self._clients[action.tenant]
        if client.connection.closed:
            self.segments.refused(action.number)
            return
        client.connection.send(note.encode(), self._fds[action.number])

    def _drop(self, action: do.Drop) -> None:
        """Free a segment's pages, even if a process still has it mapped: it has no tenant."""
        self._worker.submit(prefault.free, self._fds.pop(action.number))

    def _ask_back(self, action: do.AskBack) -> None:
        if client := self._clients.get(action.tenant):
            client.connection.send(ArenaMessage(Type.ARENA_BACK, 0, 0, action.bytes).encode())

    def _deny(self, action: do.Deny) -> None:
        if client := self._clients.get(action.tenant):
            client.connection.send(ArenaMessage(Type.ARENA).encode())

    def _no_answer(self, action: do.NoAnswer) -> None:
        if client := self._clients.get(action.tenant):
            for call in self.on_overdue:
                call(client)

    def _is_stopped(self) -> bool:
        return self._stopped

    def _numa_node(self, tenant: int) -> int | None:
        client = self._clients.get(tenant)
        gpus = sorted(client.gpus) if client else []
        return self._gpus[gpus[0]].device.numa_node if gpus else None


_DO: dict[type, Callable[[Arena, Any], None]] = {
    do.Make: Arena._make,
    do.Give: Arena._give,
    do.Drop: Arena._drop,
    do.AskBack: Arena._ask_back,
    do.Deny: Arena._deny,
    do.NoAnswer: Arena._no_answer,
}


def _raise_descriptor_limit() -> None:
    """Raise the limit of descriptors: each segment, socket and page of a process is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
