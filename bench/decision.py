"""What the two decisions of a hand-off cost the agent: at once after others, and after a sleep.

A processor that slept has lost its caches (and in a virtual machine often its place), so a decision
that takes tens of microseconds in a row of them takes a multiple of that when it is the first in a
while. Clients that sleep between kernels meet only the latter kind. The agent sends each lease and
each revoke as soon as it is decided: what follows in the same decision, no program waits for.
"""

from __future__ import annotations

import statistics
import time

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share

MIB = 1 << 20
SHARES = (Share(gpu=0.6), Share(gpu=0.3, latency=True))
HANDOFFS = 300


class Pair:
    """An arbiter and two tenants that want a GPU by turns, and do at once what they are told."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.spent_s = self.waited_s = 0.0
        self.arbiter = Arbiter([GpuSpec(0, 96 * MIB, 88 * MIB)], Settings(arena_bytes=1 << 30))
        self._epochs: dict[int, int] = {}
        self._holders: set[int] = set()
        for number, share in enumerate(SHARES, start=1):
            self._feed(ev.Hello(number, share=share))
            self._feed(ev.Attach(number, 0, 1, 2 * MIB, 88 * MIB))
            self._feed(ev.AllocRequest(number, 0, 2, 2 * MIB))

    def hand_over(self) -> tuple[float, float]:
        """Seconds until the two leases are decided, from the want of the second, and all in all."""
        self._want(1)
        while 1 not in self._holders:
            self.now_s += 0.001
            self._feed(ev.Idle(2, self._epochs[2]))
        self.now_s += 0.002
        self.spent_s = self.waited_s = 0.0
        self._want(2)
        found = self.waited_s, self.spent_s
        if 2 not in self._holders:
            raise RuntimeError("the latency class was not let in at once")
        self.now_s += 0.001
        return found

    def _want(self, number: int) -> None:
        if number not in self._holders:
            self._feed(ev.LeaseRequest(number))

    def _feed(self, event: ev.Event) -> None:
        told: list[do.Instruction] = []
        lease_s = began_s = time.perf_counter()
        for each in self.arbiter.handle(self.now_s, event):
            if isinstance(each, do.Grant | do.Revoke):
                lease_s = time.perf_counter()
            told.append(each)
        self.spent_s += time.perf_counter() - began_s
        self.waited_s += lease_s - began_s
        for each in told:
            if isinstance(each, do.Revoke):
                self._holders.discard(each.tenant)
                self._feed(ev.Drained(each.tenant, each.epoch, 0, 2 * MIB))
            elif isinstance(each, do.RestoreBudget):
                self._feed(ev.Restored(each.tenant))
            elif isinstance(each, do.Grant):
                self._holders.add(each.tenant)
                self._epochs[each.tenant] = each.epoch


def decision_us(pause_s: float) -> tuple[float, float]:
    """The medians of `Pair.hand_over` in µs, with a sleep of `pause_s` between hand-offs."""
    pair = Pair()
    for _ in range(20):
        pair.hand_over()
    found = []
    for _ in range(HANDOFFS):
        time.sleep(pause_s)
        found.append(pair.hand_over())
    until_s, whole_s = (statistics.median(each) for each in zip(*found, strict=True))
    return until_s * 1e6, whole_s * 1e6
