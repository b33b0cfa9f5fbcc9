"""How many events the arbiter decides in a second, with few and with many tenants.

The tenants share one GPU on which half of them fit, and always want it: so they take turns, and
their memory moves. They do at once what they are told.
Only the arbiter's own processor time is counted. How the cost grows is compared with how the
number of tenants does.
"""

from __future__ import annotations

import time
from collections import deque

from bench.figure import Figure
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings

CONTEXT_BYTES, DATA_BYTES = 1 << 20, 8 << 20
TENANTS = (8, 64, 512)
EVENTS = 400


class Crowd:
    """An arbiter, and tenants that take turns on its GPU."""

    def __init__(self, tenants: int) -> None:
        self.now_s = self.spent_s = 0.0
        self.handled = 0
        total_bytes = tenants * (CONTEXT_BYTES + DATA_BYTES // 2)
        gpu = GpuSpec(0, total_bytes, total_bytes)
        self._arbiter = Arbiter([gpu], Settings(arena_bytes=2 * tenants * DATA_BYTES))
        self._events: deque[ev.Event] = deque()
        for number in range(1, tenants + 1):
            self._feed(ev.Hello(number))
            self._feed(ev.Attach(number, 0, 1, CONTEXT_BYTES, total_bytes))
            self._feed(ev.AllocRequest(number, 0, 2, DATA_BYTES))
            self._feed(ev.LeaseRequest(number))

    def per_s(self, events: int) -> float:
        """The rate while so many are decided."""
        self.spent_s, self.handled = 0.0, 0
        while self.handled < events:
            deadline_s = self._arbiter.deadline_s
            if deadline_s is None:
                raise RuntimeError("the arbiter waits for nothing though many want the GPU")
            self.now_s = max(deadline_s, self.now_s + 1e-6)
            self._feed(ev.Tick())
        return self.handled / self.spent_s

    def _feed(self, event: ev.Event) -> None:
        self._events.append(event)
        while self._events:
            began_s = time.process_time()
            told = list(self._arbiter.handle(self.now_s, self._events.popleft()))
            self.spent_s += time.process_time() - began_s
            self.handled += 1
            self._events.extend(answer for each in told for answer in self._answers(each))

    def _answers(self, told: do.Instruction) -> list[ev.Event]:
        """What a tenant says that does what it is told, and wants the GPU again."""
        if isinstance(told, do.Revoke):
            here_bytes = self._arbiter.resident_bytes(told.tenant, 0)
            drained = ev.Drained(told.tenant, told.epoch, 0, here_bytes)
            return [ev.LeaseRequest(told.tenant), drained]
        if isinstance(told, do.RestoreBudget):
            return [ev.Restored(told.tenant)]
        if isinstance(told, do.Evict):
            here_bytes = self._arbiter.resident_bytes(told.tenant, 0)
            left_bytes = max(0, here_bytes - told.bytes)
            return [
                ev.Evicted(told.tenant, told.gpu, told.bytes, left_bytes, last=True, failed=False)
            ]
        return []


def measure() -> list[Figure]:
    """The rates, and how much faster the cost of a decision grows than the number of tenants."""
    rates = {tenants: Crowd(tenants).per_s(EVENTS) for tenants in TENANTS}
    few, most = TENANTS[0], TENANTS[-1]
    growth = rates[few] / rates[most] / (most / few)
    figures = [
        Figure(f"decisions_per_s_{n}", rate, "/s", None, "higher", "arbiter", EVENTS, None, "")
        for n, rate in rates.items()
    ]
    note = f"cost of a decision with {most} tenants over that with {few}, over {most // few}"
    return [
        *figures,
        Figure("decision_growth_ratio", growth, "", 1.0, "lower", "arbiter", EVENTS, None, note),
    ]
