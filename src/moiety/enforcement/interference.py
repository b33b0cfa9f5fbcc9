"""The time that a tenant costs others: by work that cannot be interrupted, or beside the turns.

A drain of a few milliseconds is part of every hand-off. A longer one keeps other tenants waiting:
each moment of it counts once for every tenant that waited for that GPU.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from moiety.model.format import format_duration

WINDOW_S: Final = 60.0
ORDINARY_S: Final = 0.005
"""Seconds of a drain that every hand-off takes."""
KEPT: Final = 8192
"""Most stays that are kept; the oldest are forgotten first."""
GPUS_MAX: Final = 64
"""Most GPUs of a machine; further ones count as the last of these."""
LATE: Final = frozenset({"draining", "stopped", "fenced"})
WAITS: Final = frozenset({"queued", "restoring"})
STUCK: Final = "undrainable"


@dataclass(frozen=True, slots=True)
class Stay:
    """A tenant in a state on some GPUs, from when to when; the states are the arbiter's."""

    tenant: int
    gpus: tuple[int, ...]
    state: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class InterferenceCost:
    """What one tenant cost others within the last minute."""

    waited_s: float
    """Seconds of waiting, summed over the tenants that waited."""
    longest_s: float
    """The longest time in seconds that it kept a GPU after it was revoked."""
    times: int
    victims: frozenset[int]

    def __str__(self) -> str:
        others = f"{len(self.victims)} other{'s' * (len(self.victims) != 1)}"
        times = "once" if self.times == 1 else f"{self.times} times"
        return (
            f"cost {others} {format_duration(round(self.waited_s, 3))} of waiting within "
            f"the last minute: it gave the GPU back late {times}, "
            f"{format_duration(round(self.longest_s, 3))} at the longest"
        )


Span = tuple[int, int, float, float]
"""Tenant, a bit for each of its GPUs, begin, end."""


class StayRing:
    """The last stays, in memory of fixed size."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._tenants = array("q", bytes(8 * most))
        self._gpus = array("Q", bytes(8 * most))
        self._begins = array("d", bytes(8 * most))
        self._ends = array("d", bytes(8 * most))
        self._seen = 0

    def append(self, stay: Stay) -> None:
        """Add a stay that ended no earlier than the last one."""
        at = self._seen % self._most
        self._tenants[at], self._gpus[at], self._begins[at], self._ends[at] = span(stay)
        self._seen += 1

    def since(self, since_s: float) -> Iterator[Span]:
        """The stays that ended after `since_s`, the last one first."""
        for number in range(self._seen - 1, max(0, self._seen - self._most) - 1, -1):
            at = number % self._most
            if self._ends[at] <= since_s:
                return
            yield self._tenants[at], self._gpus[at], self._begins[at], self._ends[at]


class Interference:
    """The late and the waiting stays of the last minute."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._late = StayRing()
        self._waits = StayRing()

    def ended(self, stay: Stay) -> None:
        """Take in a stay that is over."""
        if late := lateness(stay):
            self._late.append(late)
        elif stay.state in WAITS and stay.end_s > stay.begin_s:
            self._waits.append(stay)

    def costs(
        self, now_s: float, going_on: Iterable[Stay], of: Container[int] | None = None
    ) -> dict[int, InterferenceCost]:
        """The costs by tenant, of tenants that cost others time.

        `going_on` are stays that last up to now. `of`: only these tenants' costs; None: all.
        """
        since_s = now_s - self._window_s
        own: dict[int, list[Span]] = {}
        waits = []
        for stay in going_on:
            if late := lateness(stay):
                if of is None or late.tenant in of:
                    own.setdefault(late.tenant, []).append(span(late))
            elif stay.state in WAITS:
                waits.append(span(stay))
        for each in self._late.since(since_s):
            if of is None or each[0] in of:
                own.setdefault(each[0], []).append(each)
        if not own:
            return {}
        lates = [each for stays in own.values() for each in joined(stays)]
        first_s, last_s = min(each[2] for each in lates), max(each[3] for each in lates)
        every = itertools.chain(self._waits.since(since_s), waits)
        waits = [each for each in every if each[3] > first_s and each[2] < last_s]
        bills: dict[int, _Bill] = {}
        for own_late, wait, both_s in both(lates, waits):
            within_s = both_s - max(0.0, since_s - max(own_late[2], wait[2]))
            if own_late[0] != wait[0] and own_late[1] & wait[1] and within_s > 0:
                bills.setdefault(own_late[0], _Bill()).add(own_late, wait[0], within_s)
        return {tenant: bill.cost() for tenant, bill in bills.items()}


@dataclass(slots=True)
class _Bill:
    """Adds up the cost of one tenant."""

    waited_s: float = 0.0
    victims: set[int] = field(default_factory=set)
    mattered: set[Span] = field(default_factory=set)

    def add(self, late: Span, victim: int, waited_s: float) -> None:
        self.waited_s += waited_s
        self.victims.add(victim)
        self.mattered.add(late)

    def cost(self) -> InterferenceCost:
        longest_s = max(end_s - begin_s for _, _, begin_s, end_s in self.mattered)
        return InterferenceCost(
            self.waited_s, longest_s, len(self.mattered), frozenset(self.victims)
        )


def span(stay: Stay) -> Span:
    """A stay in the form in which it is kept."""
    gpus = 0
    for gpu in stay.gpus:
        gpus |= 1 << min(gpu, GPUS_MAX - 1)
    return stay.tenant, gpus, stay.begin_s, stay.end_s


def lateness(stay: Stay) -> Stay | None:
    """The part of a stay in which a tenant kept a GPU after a revoke; None: there is none.

    A tenant that cannot be drained has its lease again meanwhile, and others still wait for it.
    """
    ordinary_s = ORDINARY_S if stay.state in LATE else 0.0
    begin_s = stay.begin_s + ordinary_s
    if (stay.state in LATE or stay.state == STUCK) and stay.end_s > begin_s:
        return Stay(stay.tenant, stay.gpus, stay.state, begin_s, stay.end_s)
    return None


def joined(stays: Iterable[Span]) -> list[Span]:
    """One tenant's late stays; stays that follow each other, as drain and stop do, are one."""
    found: list[Span] = []
    for tenant, gpus, begin_s, end_s in sorted(stays, key=lambda each: each[2]):
        last = found[-1] if found else None
        if last and last[1] == gpus and begin_s <= last[3] + 2 * ORDINARY_S:
            found[-1] = (tenant, gpus, last[2], max(last[3], end_s))
        else:
            found.append((tenant, gpus, begin_s, end_s))
    return found


def both(lates: Iterable[Span], waits: Iterable[Span]) -> Iterator[tuple[Span, Span, float]]:
    """Each pair of a late and a waiting stay that overlap, and the overlap in seconds.

    It walks through time once and compares each stay only with the stays of that moment: there are
    thousands of stays a minute, and each overlaps a few. It runs on the agent's event loop, so it
    has to be quick.
    """
    now_late: list[Span] = []
    now_waits: list[Span] = []
    begins = [(each[2], True, each) for each in lates] + [(each[2], False, each) for each in waits]
    begins.sort()
    for begin_s, is_late, each in begins:
        own, others = (now_late, now_waits) if is_late else (now_waits, now_late)
        others[:] = [other for other in others if other[3] > begin_s]
        for other in others:
            both_s = min(each[3], other[3]) - begin_s
            yield (each, other, both_s) if is_late else (other, each, both_s)
        own.append(each)


class NotifyOnce:
    """Reports each tenant once at the threshold, and again only after it fell below half of it."""

    def __init__(self) -> None:
        self._named: set[int] = set()

    def due(self, amounts: dict[int, float], threshold: float) -> list[int]:
        """The tenants to report now."""
        if threshold <= 0:
            return []
        self._named = {who for who in self._named if amounts.get(who, 0.0) >= threshold / 2}
        due = [who for who, much in amounts.items() if much >= threshold and who not in self._named]
        self._named.update(due)
        return due
