"""Who costs others how much time: by work that cannot be interrupted, or beside the turns.

A drain of a few milliseconds is part of every hand-off. What is longer kept somebody waiting who
would have had the GPU: each such moment counts once for everybody who waited for that GPU in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from moiety.model.format import format_duration

WINDOW_S: Final = 60.0
ORDINARY_S: Final = 0.005
"""of a drain, that is nobody's fault"""
KEPT: Final = 8192
"""stays at most; older ones are forgotten first"""
LATE: Final = frozenset({"draining", "stopped", "fenced"})
WAITS: Final = frozenset({"waiting", "coming"})
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
class Cost:
    """What one tenant cost others within the last minute."""

    waited_s: float
    """summed over those who waited"""
    longest_s: float
    """that it kept a GPU after it was told to give it back"""
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


class Neighbours:
    """The stays of the last minute that can have kept somebody waiting."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._late: deque[Stay] = deque(maxlen=KEPT)
        self._waits: deque[Stay] = deque(maxlen=KEPT)

    def ended(self, stay: Stay) -> None:
        """A stay is over."""
        if late := lateness(stay):
            self._late.append(late)
        elif stay.state in WAITS and stay.end_s > stay.begin_s:
            self._waits.append(stay)

    def costs(self, now_s: float, going_on: Iterable[Stay]) -> dict[int, Cost]:
        """By tenant, of whoever cost anybody anything; `going_on` are stays that last up to now."""
        since_s = now_s - self._window_s
        for kept in (self._late, self._waits):
            while kept and kept[0].end_s <= since_s:
                kept.popleft()
        late, waits = list(self._late), list(self._waits)
        for stay in going_on:
            if found := lateness(stay):
                late.append(found)
            elif stay.state in WAITS:
                waits.append(stay)
        found_costs: dict[int, Cost] = {}
        for tenant in {stay.tenant for stay in late} if waits else ():
            own = joined(stay for stay in late if stay.tenant == tenant)
            cost = _cost(own, waits, since_s)
            if cost.waited_s > 0:
                found_costs[tenant] = cost
        return found_costs


def lateness(stay: Stay) -> Stay | None:
    """The part of a stay in which a tenant had a GPU that it was to give back; None: there is none.

    One that cannot be drained has its lease again meanwhile, and still is what the others wait for.
    """
    ordinary_s = ORDINARY_S if stay.state in LATE else 0.0
    begin_s = stay.begin_s + ordinary_s
    if (stay.state in LATE or stay.state == STUCK) and stay.end_s > begin_s:
        return Stay(stay.tenant, stay.gpus, stay.state, begin_s, stay.end_s)
    return None


def joined(stays: Iterable[Stay]) -> list[Stay]:
    """One tenant's late stays, those that follow each other as one: it drained, and was stopped."""
    found: list[Stay] = []
    for stay in sorted(stays, key=lambda each: each.begin_s):
        last = found[-1] if found else None
        if last and last.gpus == stay.gpus and stay.begin_s <= last.end_s + 2 * ORDINARY_S:
            found[-1] = replace(last, end_s=max(last.end_s, stay.end_s))
        else:
            found.append(stay)
    return found


def _cost(own: list[Stay], waits: list[Stay], since_s: float) -> Cost:
    waited_s = 0.0
    victims: set[int] = set()
    mattered: set[int] = set()
    begin_s = min(stay.begin_s for stay in own)
    end_s = max(stay.end_s for stay in own)
    for wait in waits:
        if wait.tenant == own[0].tenant or wait.end_s <= begin_s or wait.begin_s >= end_s:
            continue
        for number, stay in enumerate(own):
            first_s = max(stay.begin_s, wait.begin_s, since_s)
            both_s = min(stay.end_s, wait.end_s) - first_s
            if both_s > 0 and not set(stay.gpus).isdisjoint(wait.gpus):
                waited_s += both_s
                victims.add(wait.tenant)
                mattered.add(number)
    longest_s = max((own[n].end_s - own[n].begin_s for n in mattered), default=0.0)
    return Cost(waited_s, longest_s, len(mattered), frozenset(victims))


class Named:
    """Whom to name, once each: at the threshold, and again only after half of it was undercut."""

    def __init__(self) -> None:
        self._named: set[int] = set()

    def due(self, amounts: dict[int, float], threshold: float) -> list[int]:
        """Those who are to be named now."""
        if threshold <= 0:
            return []
        self._named = {who for who in self._named if amounts.get(who, 0.0) >= threshold / 2}
        due = [who for who, much in amounts.items() if much >= threshold and who not in self._named]
        self._named.update(due)
        return due
