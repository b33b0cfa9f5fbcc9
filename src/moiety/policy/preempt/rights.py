"""The rights by which work takes room from other queues, and the order in which units yield."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from math import inf
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.preempt.turns import on_turn
from moiety.policy.preempt.victims import ReversedName, VictimUnit
from moiety.policy.queue.queue_usage import CLOSE, GPU_MILLI, TURN_S
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart

UNSURE_MAX: Final = 256
"""The most units that `first_reached` looks at."""


class EvictionRight(IntEnum):
    """A right to take, the strongest first."""

    QUOTA = 0
    SHARE = 1
    CREDIT = 2


class ReclaimCheck:
    """The right by which a piece takes from other queues; checked before each unit, and in the end.

    Queues are compared where their paths part: there, and below on the side of the piece. The piece
    may take from a queue above its quota, as long as the piece's side stays within quota. It may
    take from a queue above its fair share, as long as the piece's side stays within its own; in the
    end the piece's side must not have more of what it should have than the queue that yielded, and
    that queue must not have less than its quota. It may take from a queue in debt, down to quota,
    if the piece's side has credit for a turn, or is in debt by a turn less; while the credit lasts,
    that turn is not taken from it by fair share, nor does it count against its other work.

    A unit that is larger than all that is due to its queue cannot yield in part. It yields by fair
    share to a side that has at most half of its own, whatever its queue has left then; but not
    before it has run for a turn, nor within a turn of the last such exchange between the two. What
    its queue lacks after that becomes its credit.
    """

    def __init__(self, state: ClusterState, piece: GangPart) -> None:
        self._state = state
        self._standing = state.standing
        self._queue = piece.workload.queue
        self._amounts = piece.amounts
        self._may: dict[tuple[int, EvictionRight], bool] = {}
        """Whether the piece's side may take by that right, from a level down."""
        self._may_any: dict[int, bool] = {}
        """Whether it may by any right."""
        self._version = self._shares_version = -1
        self._rights: dict[str, EvictionRight | None] = {}
        """The strongest right to units of each queue, and `_asked`, for the same usage."""
        self._rights_on: dict[tuple[int, str], list[str]] = {}
        """The queues in `_rights` by level and by the side that they are on there."""
        self._asked: dict[str, list[int]] = {}
        self._outsized: dict[str, list[VictimUnit]] = {}
        """Units by queue that were picked and are larger than what is due to their queue."""
        self.taken: dict[str, EvictionRight] = {}
        """The queues from which units were taken, each with the weakest right that was used."""

    def _side(self, other: str) -> tuple[int, str, str]:
        return self._standing.parting(self._queue, other)

    def _by(self, other: str) -> EvictionRight | None:
        """The strongest right to units of a queue; None: there is none."""
        self._renew()
        try:
            return self._rights[other]
        except KeyError:
            found = self._rights[other] = self._find_right(other)
            level, _, theirs = self._side(other)
            self._rights_on.setdefault((level, theirs), []).append(other)
            return found

    def _renew(self) -> None:
        """Forget what was found for another usage of the queues that it was found from."""
        standing = self._standing
        if self._version == standing.version:
            return
        if self._shares_version != standing.shares_version:
            self._shares_version = standing.shares_version
            self._may.clear()
            self._may_any.clear()
            self._rights.clear()
            self._rights_on.clear()
            self._asked.clear()
        else:
            for queue in set(standing.touched[self._version - self._shares_version :]):
                self._forget(queue)
        self._version = standing.version

    def _forget(self, queue: str) -> None:
        """Forget what was found from the usage of a leaf queue and of the queues above it."""
        mine, theirs = self._standing.paths[self._queue], self._standing.paths[queue]
        level = len(mine) if queue == self._queue else self._standing.fork(self._queue, queue)
        if level < len(theirs):
            side = theirs[level]
            self._asked.pop(side, None)
            for other in self._rights_on.pop((level, side), ()):
                del self._rights[other]
        if not level:
            return
        for at in range(level):  # what the two have in common is on the side of the piece there
            self._may_any.pop(at, None)
            for by in EvictionRight:
                self._may.pop((at, by), None)
        for at, side in [each for each in self._rights_on if each[0] < level]:
            for other in self._rights_on.pop((at, side)):
                del self._rights[other]

    def _find_right(self, other: str) -> EvictionRight | None:
        standing = self._standing
        level, mine, theirs = self._side(other)
        if not self._may_ask_any(level):
            return None
        is_over_quota = standing.is_over_quota(theirs)
        if is_over_quota and self._may_ask(level, EvictionRight.QUOTA):
            return EvictionRight.QUOTA
        if self._may_ask(level, EvictionRight.SHARE) and self._above_fair_share(theirs):
            return EvictionRight.SHARE
        if (
            is_over_quota
            and self._has_turn_over(mine, theirs)
            and self._may_ask(level, EvictionRight.CREDIT)
        ):
            return EvictionRight.CREDIT
        return None

    def _has_turn_over(self, mine: str, theirs: str) -> bool:
        """Whether a queue is in debt, by a turn of the piece more than the queue that asks.

        Without that difference, two queues in debt would take the same room from each other at one
        moment, for ever.
        """
        theirs_s = self._standing.credit.get(theirs, 0.0)
        if theirs_s >= 0:
            return False
        turn_s = self._amounts[GPU_MILLI] / WHOLE_GPU * TURN_S
        return self._standing.credit.get(mine, 0.0) - theirs_s >= turn_s

    def _may_ask_any(self, level: int) -> bool:
        found = self._may_any.get(level)
        if found is None:
            found = (
                self._may_ask(level, EvictionRight.QUOTA)
                or self._may_ask(level, EvictionRight.SHARE)
                or self._may_ask(level, EvictionRight.CREDIT)
            )
            self._may_any[level] = found
        return found

    def _may_ask(self, level: int, by: EvictionRight) -> bool:
        found = self._may.get((level, by))
        if found is None:
            if by is EvictionRight.CREDIT:
                found = self._standing.has_turn(self._queue, level, self._amounts)
            else:
                is_quota = by is EvictionRight.QUOTA
                found = self._standing.within(self._queue, level, self._amounts, quota=is_quota)
            self._may[level, by] = found
        return found

    def could(self, other: str) -> bool:
        """Whether any unit may be taken from a queue now, before the piece has its place."""
        if other == self._queue or not any(self._standing.has[other]):
            return False
        return self._by(other) is not None

    def open_queues(self, others: Iterable[str]) -> list[str]:
        """The queues of which any unit may be taken now."""
        self._renew()
        levels = range(len(self._standing.paths[self._queue]))
        if not any(map(self._may_ask_any, levels)):
            return []
        has, rights, found = self._standing.has, self._rights, []
        for other in others:
            if other in rights:
                if rights[other] is not None and any(has[other]):
                    found.append(other)
            elif self.could(other):
                found.append(other)
        return found

    def may_open(self, other: str) -> bool:
        """Whether any unit may be taken from a queue, now or after units of others have ended.

        What others have only gets less by that. So a right that is missing although the piece may
        ask for it does not come later.
        """
        if self.could(other):
            return True
        level = self._side(other)[0]
        return not all(self._may_ask(level, by) for by in EvictionRight)

    def reaches(self, unit: VictimUnit) -> bool:
        """Whether the right to take from a queue covers a unit of it."""
        return bool(self.reached(unit.workload.queue, (unit,)))

    def reached(self, other: str, units: Sequence[VictimUnit]) -> Sequence[VictimUnit]:
        """The units of a queue that the right to take from it covers.

        By fair share it covers units with some of the resource that the queue has too much of: a
        queue with too many GPUs does not lose CPU-only tasks for that. By quota it does, but only
        to pieces that ask for that resource: else two queues above quota would take CPUs from each
        other without end. By credit it covers units with GPUs.
        """
        by = self._by(other)
        standing, seated = self._standing, self._state.seated
        theirs = self._side(other)[2]
        if by is EvictionRight.QUOTA:
            above = standing.above_quota(theirs)
            if any(self._amounts[at] for at in above):
                return units
            return [
                unit
                for unit in units
                if any(seated[t].amounts[at] for t in unit.tasks if t in seated for at in above)
            ]
        is_credit = by is EvictionRight.CREDIT
        asked = (GPU_MILLI,) if is_credit else self._above_fair_share(theirs)
        keeps_large = not is_credit and standing.credit.get(theirs, 0.0) > 0
        found = []
        for unit in units:
            here = [seated[task].amounts for task in unit.tasks if task in seated]
            if keeps_large:
                gpu_milli = sum([amounts[GPU_MILLI] for amounts in here])
                if standing.is_too_much(theirs, gpu_milli):
                    continue
            if any(amounts[at] for amounts in here for at in asked):
                found.append(unit)
        return found

    def _above_fair_share(self, theirs: str) -> Sequence[int]:
        """The resources of which a queue has more than its fair share, turns on credit aside."""
        found = self._asked.get(theirs)
        if found is None:
            found = self._standing.above_fair_share(theirs)
            if found:
                turn = on_turn(self._state, theirs)
                has, fair = self._standing.has[theirs], self._standing.fair[theirs]
                found = [at for at in found if has[at] - turn[at] > fair[at]]
            self._asked[theirs] = found
        return found

    def first_reached(
        self, other: str, units: Sequence[VictimUnit], count: int
    ) -> list[VictimUnit] | None:
        """The first units of a queue, up to the one by which any right has reached `count` of them.

        None: it takes too many units to be sure of that.
        """
        standing, seated = self._standing, self._state.seated
        _, _, theirs = self._side(other)
        has_credit = standing.credit.get(theirs, 0.0) > 0
        found: list[VictimUnit] = []
        for unit in units:
            found.append(unit)
            here = [seated[task].amounts for task in unit.tasks if task in seated]
            gpu_milli = sum(amounts[GPU_MILLI] for amounts in here)
            if (
                here
                and all(here[0])
                and not (has_credit and standing.is_too_much(theirs, gpu_milli))
            ):
                count -= 1
                if not count:
                    return found
            elif len(found) > UNSURE_MAX:
                return None
        return found

    def take(self, unit: VictimUnit) -> None:
        """Note the right by which a unit is about to be taken from its queue."""
        other = unit.workload.queue
        by = self._by(other)
        assert by is not None
        if by is EvictionRight.SHARE and self._may_exchange(unit):
            self._outsized.setdefault(other, []).append(unit)
        self.taken[other] = max(by, self.taken.get(other, EvictionRight.QUOTA))

    def _may_exchange(self, unit: VictimUnit) -> bool:
        """Whether a unit is larger than what is due to its queue, and has had its turn."""
        standing, seated = self._standing, self._state.seated
        _, mine, theirs = self._side(unit.workload.queue)
        gpu_milli = sum(seated[task].amounts[GPU_MILLI] for task in unit.tasks)
        now_s = self._state.snapshot.now_s
        since_s = max(unit.since_s, self._state.snapshot.exchanged_s.get((mine, theirs), -inf))
        if now_s - since_s < TURN_S or not standing.is_too_much(theirs, gpu_milli):
            return False
        return 2 * standing.has[mine][GPU_MILLI] <= standing.fair[mine][GPU_MILLI]

    def exchanges(self) -> list[tuple[str, str]]:
        """The pairs of queues between which a unit larger than its queue's due has ended."""
        seated = self._state.seated
        return [
            self._side(other)[1:]
            for other, units in self._outsized.items()
            if any(task not in seated for unit in units for task in unit.tasks)
        ]

    def holds(self) -> bool:
        """Whether all that was taken is still right, now that the piece has its place."""
        standing = self._standing
        exchanges = self.exchanges()
        for other, by in self.taken.items():
            level, mine, theirs = self._side(other)
            if by is EvictionRight.CREDIT:
                has_turn = standing.has_turn(self._queue, level, self._amounts, is_in=True)
                if not has_turn or standing.is_below_quota(theirs):
                    return False
                continue
            is_quota = by is EvictionRight.QUOTA
            if not standing.is_within(self._queue, level, self._amounts, quota=is_quota):
                return False
            if is_quota or not standing.is_below_fair_share(theirs) or (mine, theirs) in exchanges:
                continue
            if standing.is_below_quota(theirs):
                return False
            if standing.ratio(mine) > standing.ratio(theirs) + CLOSE:
                return False
        return True

    def order(self, other: str) -> tuple[float, float, int, float]:
        """Sort key: first the queue that has most in relation to what it should have."""
        _, _, theirs = self._side(other)
        standing = self._standing
        return (
            -standing.ratio(theirs),
            -standing.ratio(other),
            standing.tree.queues[theirs].priority,
            -standing.part(other),
        )


def has_yielded(state: ClusterState, piece: GangPart) -> bool:
    """Whether a piece has yielded at this moment, and is not within quota: then it may not ask.

    It begins where there is room. If it took room, what it ends could take that from it in the next
    decision, and so on at one moment, for ever.
    """
    workload = piece.workload
    return workload.name in state.yielded and not state.standing.within(
        workload.queue, 0, piece.amounts, quota=True
    )


def by_right(
    right: ReclaimCheck,
    queues: Iterable[str],
    of: Callable[[str], Sequence[VictimUnit]],
    without: str,
) -> Iterator[VictimUnit]:
    """Units of other queues, one after the other, as long as the right to them lasts.

    The next unit depends on what the earlier ones have left, so each has to end before the next is
    requested. `of` gives the units of a queue; no workload yields to itself (`without`).
    """
    lines: dict[str, Iterator[VictimUnit]] = {}
    following: dict[str, VictimUnit | None] = {}

    def first(queue: str) -> VictimUnit | None:
        if queue not in lines:
            lines[queue] = iter(of(queue))
            following[queue] = next(lines[queue], None)
        unit = following[queue]
        while unit and (unit.workload.name == without or not right.reaches(unit)):
            unit = next(lines[queue], None)  # nor will it later: what is too much only gets less
        following[queue] = unit
        return unit

    others = list(queues)
    while True:
        open_ = [(right.order(queue), queue) for queue in right.open_queues(others)]
        candidates: list[tuple[tuple[int, bool, float, float, ReversedName, int], str]] = []
        for _, found in groupby(sorted(open_), key=lambda each: each[0]):
            heads = [(first(queue), queue) for _, queue in found]
            candidates = [(unit.order, queue) for unit, queue in heads if unit]
            if candidates:
                break
        if not candidates:
            return
        _, queue = min(candidates)
        unit = following[queue]
        assert unit
        following[queue] = next(lines[queue], None)
        right.take(unit)
        yield unit
