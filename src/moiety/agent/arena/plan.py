"""The ledger of the arena's segments: which tenant has which, and which to make, give or drop.

It only decides: `plan` returns actions, and arena.py carries them out and reports the outcome. A
segment is one memfd. It is made, then ready, then given to one tenant, and never to another: its
first tenant, or a child of that process, may have it mapped for as long as it lives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

KEEP_S: Final = 30.0
"""Seconds after which an unused segment goes back to the system."""
HURRY_S: Final = 1.0
"""The same where the host is short of memory."""
AT_ONCE: Final = 2
"""Segments that are made at one time; few, so that a changed plan finds few under way."""


class SegmentState(Enum):
    """Where a segment is in its life."""

    MAKING = "making"
    READY = "ready"
    GIVEN = "given"


@dataclass(slots=True)
class Segment:
    """One segment; `tenant` is 0 unless it is given."""

    number: int
    state: SegmentState
    tenant: int = 0


@dataclass(frozen=True, slots=True)
class Make:
    """Create and fault in a segment for a tenant; answered by `made`."""

    number: int
    tenant: int


@dataclass(frozen=True, slots=True)
class Give:
    """Send a segment to a tenant."""

    number: int
    tenant: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Let go of a segment."""

    number: int


@dataclass(frozen=True, slots=True)
class AskBack:
    """Ask a tenant to give back empty segments, at most this many bytes."""

    tenant: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Deny:
    """Tell a tenant that waits for a segment that it gets none."""

    tenant: int


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A tenant does not answer whether it has empty segments; reported again until it does."""

    tenant: int


Action = Make | Give | Drop | AskBack | Deny | NoAnswer


@dataclass(slots=True)
class Segments:
    """All segments of one node. `limit_bytes` bounds them together, foreign ones included."""

    segment_bytes: int
    limit_bytes: int
    next_number: int = 1
    deadline_s: float = 10.0
    """Seconds in which a tenant answers, or returns a segment."""
    segments: dict[int, Segment] = field(default_factory=dict)
    foreign: dict[int, dict[int, int]] = field(default_factory=dict)
    """By tenant and number: bytes of an earlier agent's segments that the tenant has mapped."""
    needs: Mapping[int, int] = field(default_factory=dict)
    urgent: dict[int, int] = field(default_factory=dict)
    """By tenant: bytes that it waits to have in all."""
    _asked: dict[int, float] = field(default_factory=dict)
    """Tenants that were asked for segments and have not answered; since when nothing came back."""
    _silent: dict[int, float] = field(default_factory=dict)
    """Tenants that are overdue with that answer, and get no segment before it; since when."""
    _tried: set[int] = field(default_factory=set)
    """Tenants that were asked because others wait."""
    _unable: dict[int, float | None] = field(default_factory=dict)
    """By tenant that returned more than it was asked for: when it gets segments again."""
    _surplus_since: dict[int, float] = field(default_factory=dict)
    """By tenant, or 0 for segments without a tenant: since when it has too many."""
    _later: list[Action] = field(default_factory=list)
    _now_s: float = 0.0
    """The time of the last plan."""

    # Sums

    @property
    def made_bytes(self) -> int:
        """Bytes of the segments that are ready or given: their pages exist."""
        made = sum(s.state is not SegmentState.MAKING for s in self.segments.values())
        return made * self.segment_bytes + self.foreign_bytes

    @property
    def foreign_bytes(self) -> int:
        """Bytes of earlier agents' segments that tenants have mapped."""
        return sum(sum(each.values()) for each in self.foreign.values())

    def held_bytes(self, tenant: int) -> int:
        """Bytes of the segments that one tenant has."""
        own = sum(s.tenant == tenant for s in self.segments.values()) * self.segment_bytes
        return own + sum(self.foreign.get(tenant, {}).values())

    # What happened

    def asked(self, tenant: int, more_bytes: int, most_bytes: int) -> None:
        """A tenant waits for this many bytes more than it has, and may have `most_bytes` in all."""
        held = self.held_bytes(tenant)
        if held >= most_bytes:
            self._later.append(Deny(tenant))
        else:
            self.urgent[tenant] = min(held + max(1, more_bytes), most_bytes)

    def made(self, number: int, *, well: bool) -> None:
        """A segment was made; not `well`: it does not exist."""
        segment = self.segments.get(number)
        if segment is None:
            return
        if well:
            segment.state = SegmentState.READY
        else:
            del self.segments[number]

    def returned(self, tenant: int, number: int) -> None:
        """A tenant has unmapped a segment; a segment that it does not have changes nothing."""
        foreign = self.foreign.get(tenant, {})
        segment = self.segments.get(number)
        if segment is not None and segment.tenant == tenant:
            if tenant in self._asked:
                self._asked[tenant] = self._now_s
            elif tenant not in self._silent:
                self._unable[tenant] = None
            self._drop(segment)
        elif number in foreign:
            del foreign[number]

    def gave_all(self, tenant: int) -> None:
        """A tenant that was asked for empty segments has no more of them."""
        self._asked.pop(tenant, None)
        self._silent.pop(tenant, None)

    def refused(self, number: int) -> None:
        """A segment did not get to the tenant that it was given to: no process has it yet."""
        segment = self.segments[number]
        segment.state, segment.tenant = SegmentState.READY, 0

    def adopted(self, tenant: int, number: int, size: int) -> None:
        """A tenant has mapped this segment, of an earlier agent unless it is its own already."""
        own = self.segments.get(number)
        if own is not None and own.tenant == tenant:
            return
        self.foreign.setdefault(tenant, {})[number] = size

    def moved(self, before: int, tenant: int) -> None:
        """A process whose connection broke has another, as `tenant`: what it has stays its own.

        It may have data in every segment, also in one that it does not mention.
        """
        for segment in self.segments.values():
            if segment.tenant == before:
                segment.tenant = tenant
        if before in self.foreign:
            self.foreign[tenant] = self.foreign.pop(before)
        if before in self._unable:
            self._unable[tenant] = self._unable.pop(before)
        if before in self._tried:
            self._tried.add(tenant)
        for asked in (self._asked, self._silent):
            if before in asked:  # its answer may be lost
                asked[tenant] = asked.pop(before)
                self._later.append(AskBack(tenant, self.segment_bytes))

    def left(self, tenant: int) -> None:
        """A tenant is gone, and its process has no segment mapped any more."""
        for segment in [s for s in self.segments.values() if s.tenant == tenant]:
            self._drop(segment)
        self.foreign.pop(tenant, None)
        self.urgent.pop(tenant, None)
        self.gave_all(tenant)
        self._unable.pop(tenant, None)
        self._surplus_since.pop(tenant, None)

    def _drop(self, segment: Segment) -> None:
        del self.segments[segment.number]
        self._later.append(Drop(segment.number))

    # What should be done

    def plan(self, now_s: float, *, may_make: bool, is_short: bool = False) -> list[Action]:
        """Return the actions for now, in order.

        Args:
            now_s: the time, in seconds on any clock that never goes back.
            may_make: the host has memory to spare.
            is_short: the host has so little that unused segments go back at once.
        """
        actions, self._later = self._later, []
        self._now_s = now_s
        self._forgive(now_s)
        self._report(actions)
        lacking = self._give(actions)
        self._make(actions, lacking, may_make=may_make)
        self._settle(actions, lacking)
        self._shrink(actions, lacking, now_s, is_short=is_short)
        actions += self._later
        self._later = []
        return actions

    def _forgive(self, now_s: float) -> None:
        """After KEEP_S, try tenants again that could not map a segment (no descriptor was left)."""
        for tenant, until_s in list(self._unable.items()):
            if until_s is None:
                self._unable[tenant] = now_s + KEEP_S
            elif until_s <= now_s:
                del self._unable[tenant]

    @property
    def due_s(self) -> float:
        """When a tenant is overdue that has not answered yet; infinite: none is."""
        since_s = min([*self._asked.values(), *self._silent.values()], default=math.inf)
        return since_s + self.deadline_s

    def _report(self, actions: list[Action]) -> None:
        """Report tenants that do not answer; others wait for them no more."""
        for asked in (self._asked, self._silent):
            for tenant, since_s in list(asked.items()):
                if self._now_s - since_s >= self.deadline_s:
                    del asked[tenant]
                    self._silent[tenant] = self._now_s
                    actions.append(NoAnswer(tenant))

    def _held(self) -> dict[int, int]:
        """Bytes that each tenant was given."""
        held = {tenant: sum(each.values()) for tenant, each in self.foreign.items()}
        for segment in self._in(SegmentState.GIVEN):
            held[segment.tenant] = held.get(segment.tenant, 0) + self.segment_bytes
        return held

    def _give(self, actions: list[Action]) -> dict[int, int]:
        """Give ready segments to tenants that lack some; returns how many each still lacks."""
        lacking: dict[int, int] = {}
        held = self._held()
        ready = [s for s in self.segments.values() if s.state is SegmentState.READY]
        for tenant in [*self.urgent, *(t for t in self.needs if t not in self.urgent)]:
            wanted = max(self.needs.get(tenant, 0), self.urgent.get(tenant, 0))
            short = -(-max(0, wanted - held.get(tenant, 0)) // self.segment_bytes)
            if tenant in self._unable or tenant in self._silent:
                if self.urgent.pop(tenant, None):
                    actions.append(Deny(tenant))
                continue
            while short and ready:
                segment = ready.pop(0)
                segment.state = SegmentState.GIVEN
                segment.tenant = tenant
                actions.append(Give(segment.number, tenant))
                short -= 1
            if short:
                lacking[tenant] = short
            else:
                self.urgent.pop(tenant, None)
        return lacking

    def _make(self, actions: list[Action], lacking: dict[int, int], *, may_make: bool) -> None:
        making = sum(1 for _ in self._in(SegmentState.MAKING))
        ready = sum(1 for _ in self._in(SegmentState.READY))
        short = sum(lacking.values()) + bool(self.needs) - ready - making
        total = len(self.segments) * self.segment_bytes + self.foreign_bytes
        wanting = next(iter(lacking or self.needs), 0)
        while short > 0 and making < AT_ONCE and may_make:
            total += self.segment_bytes
            if total > self.limit_bytes:
                return
            segment = Segment(self.next_number, SegmentState.MAKING)
            self.segments[segment.number] = segment
            self.next_number += 1
            actions.append(Make(segment.number, wanting))
            short -= 1
            making += 1

    def _settle(self, actions: list[Action], lacking: dict[int, int]) -> None:
        """While tenants wait, ask others for empty segments; if there are none, deny them."""
        waiting = [tenant for tenant in self.urgent if tenant in lacking]
        if not waiting:
            self._tried.clear()
        if not waiting or any(self._in(SegmentState.MAKING)):
            return
        short = sum(lacking[tenant] for tenant in waiting) * self.segment_bytes
        for other in {s.tenant for s in self._in(SegmentState.GIVEN)} - {*waiting} - self._tried:
            self._tried.add(other)
            self._ask(actions, other, short)
        if not self._asked:
            self._tried.clear()
            for tenant in waiting:
                del self.urgent[tenant]
                actions.append(Deny(tenant))

    def _shrink(
        self, actions: list[Action], lacking: dict[int, int], now_s: float, *, is_short: bool
    ) -> None:
        """Drop, or ask back, segments that were not needed for `KEEP_S`, or `HURRY_S`."""
        keep_s = HURRY_S if is_short else KEEP_S
        ready = [] if lacking else list(self._in(SegmentState.READY))
        spare = bool(self.needs) and not is_short
        if self._is_old(0, len(ready) > spare, now_s, keep_s):
            for segment in ready[spare:]:
                self._drop(segment)
        for tenant, held in self._held().items():
            surplus = (held - self.needs.get(tenant, 0)) // self.segment_bytes
            if self._is_old(tenant, surplus > 0, now_s, keep_s):
                self._ask(actions, tenant, surplus * self.segment_bytes)

    def _is_old(self, tenant: int, surplus: bool, now_s: float, keep_s: float) -> bool:
        if not surplus:
            self._surplus_since.pop(tenant, None)
            return False
        since_s = self._surplus_since.setdefault(tenant, now_s)
        if now_s - since_s < keep_s:
            return False
        self._surplus_since[tenant] = now_s
        return True

    def _ask(self, actions: list[Action], tenant: int, size: int) -> None:
        """Ask a tenant for empty segments, unless it owes an answer for too long already."""
        if tenant in self._silent:
            return
        self._asked.setdefault(tenant, self._now_s)
        actions.append(AskBack(tenant, size))

    def _in(self, *states: SegmentState) -> Iterator[Segment]:
        return (s for s in self.segments.values() if s.state in states)
