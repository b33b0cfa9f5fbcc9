"""Tenants that always have work, on a virtual clock: what share of a GPU does each receive?

`Backlog` lets a `SimulatedNode` run for hours in a moment: draining, moving and messages take
the time that they are given, everybody touches the GPU again at once, and nobody falls idle.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from functools import partial

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share

GPU_BYTES = 80 << 30


class Backlog:
    """One GPU and tenants that never stop."""

    def __init__(
        self,
        shares: Sequence[Share],
        *,
        bytes_each: int = 1 << 30,
        gpu_bytes: int = GPU_BYTES,
        link_bytes_per_s: float = 50e9,
        message_s: float = 50e-6,
        drain_s: float = 200e-6,
        settings: Settings | None = None,
    ) -> None:
        """Tenants 1, 2, ... with these shares, each with `bytes_each` of memory."""
        found = settings or Settings(arena_bytes=1 << 50, link_bytes_per_s=link_bytes_per_s)
        self.arbiter = Arbiter([GpuSpec(0, gpu_bytes + (1 << 30), gpu_bytes)], found)
        self.now_s = 0.0
        self.revokes = 0
        self._link = link_bytes_per_s
        self._message_s = message_s
        self._drain_s = drain_s
        self._asleep: set[int] = set()
        self._resident: dict[int, int] = {}
        self._missing: dict[int, int] = {}
        self._bytes_each = bytes_each
        self._bytes: dict[int, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        for number, share in enumerate(shares, start=1):
            self.add(number, share)

    def add(
        self,
        number: int,
        share: Share,
        bytes_each: int | None = None,
        *,
        owner: str = "",
        workload: str = "",
    ) -> None:
        """One more tenant: it comes now, with its memory evicted."""
        self._resident[number] = 0
        self._bytes[number] = bytes_each or self._bytes_each
        self.tell(ev.Hello(number, share=share, owner=owner, workload=workload))
        self.tell(ev.Attach(number, 0, 1, 0, GPU_BYTES))
        self.tell(ev.AllocRequest(number, 0, 2, self._bytes[number]))

    def end(self, number: int) -> None:
        """It is gone."""
        self._asleep.add(number)
        self.tell(ev.Left(number))

    def sleep(self, number: int) -> None:
        """It wants nothing any more."""
        self._asleep.add(number)

    def wake(self, number: int) -> None:
        """It wants everything again."""
        self._asleep.discard(number)
        self.tell(ev.LeaseRequest(number))

    def tell(self, event: ev.Event) -> None:
        """Let the arbiter know at once, and do what it says."""
        for told in self.arbiter.handle(self.now_s, event):
            self._do(told)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until_s = self.now_s + seconds
        while True:
            due_s = self.arbiter.deadline_s
            first_s = self._events[0][0] if self._events else None
            times = [t for t in (due_s, first_s) if t is not None and t <= until_s]
            if not times:
                break
            self.now_s = max(self.now_s, min(times))
            if first_s is not None and first_s <= self.now_s:
                heapq.heappop(self._events)[2]()
            else:
                self.tell(ev.Tick())
        self.now_s = until_s
        self.tell(ev.Tick())

    def received_s(self) -> list[float]:
        """GPU-seconds of each tenant so far, by number."""
        views = sorted(self.arbiter.tenants(), key=lambda view: view.tenant)
        return [view.received_s for view in views]

    def over(self, seconds: float) -> list[float]:
        """The part of the GPU that each tenant receives while so much time passes."""
        before = self.received_s()
        self.run(seconds)
        return [(b - a) / seconds for a, b in zip(before, self.received_s(), strict=True)]

    def _later(self, after_s: float, event: ev.Event) -> None:
        self._then(after_s, partial(self.tell, event))

    def _then(self, after_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + after_s, next(self._order), what))

    def _do(self, told: do.Instruction) -> None:
        number = told.tenant
        if isinstance(told, do.Revoke):
            self.revokes += 1
            if number not in self._asleep:
                self._later(self._message_s, ev.LeaseRequest(number))
            after_s = self._message_s + self._drain_s
            self._later(after_s, ev.Drained(number, told.epoch, 0, self._resident[number]))
        elif isinstance(told, do.Evict):
            out = min(told.bytes, self._resident[number])
            self._resident[number] -= out
            after_s = self._message_s + out / self._link
            self._later(after_s, ev.Evicted(number, 0, out, self._resident[number], last=True))
        elif isinstance(told, do.RestoreBudget):
            self._resident[number] += told.bytes
            if self._resident[number] >= self._bytes[number]:
                after_s = self._message_s + told.bytes / self._link
                self._later(after_s, ev.Restored(number))
        elif isinstance(told, do.Admitted) and told.serial == 2:
            self._resident[number] = self._bytes[number]
        elif isinstance(told, do.SetIdleTimeout) and told.idle_s > 0 and number in self._asleep:
            view = next(v for v in self.arbiter.tenants() if v.tenant == number)
            self._later(told.idle_s, ev.Idle(number, view.turns))
