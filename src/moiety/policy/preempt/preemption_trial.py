"""Ends others in a trial until a piece has room, and keeps the result only if it holds.

Units end one after the other, the least harmful first, until the piece has room. If the plan does
not hold then, it is tried again with one unit more, then with 2, 4, 8 and so on. Units that
were not in the way, or find another place, come back, the last to end first. The units that remain
ended are the plan; if it does not hold, everything is undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape
from moiety.policy.place.pools import Place
from moiety.policy.preempt.upper_bound import UpperBound
from moiety.policy.preempt.victims import VictimUnit
from moiety.policy.state.cluster_state import ClusterState, PlacedTask
from moiety.policy.state.gang_parts import GangPart
from moiety.policy.state.gang_start import start_piece, stay

UNITS_MAX: Final = 64
"""The most units that end after a try in vain, before a plan is given up."""


class EndedUnit(NamedTuple):
    """A unit that ended in a trial, and where its tasks were."""

    unit: VictimUnit
    seated: tuple[PlacedTask, ...]


class Right(Protocol):
    """The right by which units end. A plan stands only if it still holds."""

    @property
    def taken(self) -> Mapping[str, int]:
        """The right that was used for each queue; it holds if it holds for each of them."""

    def holds(self) -> bool:
        """Whether all that was taken is still right, now that the piece has its place."""


def clear(
    state: ClusterState,
    piece: GangPart,
    picked: Iterator[VictimUnit],
    right: Right | None,
    moves_max: int,
    *,
    all_return: bool,
) -> list[EndedUnit] | None:
    """End picked units until the piece has room; returns the units that ended or moved, or None.

    No more than `moves_max` tasks move: tasks that would have to move beyond that stay ended.
    Without a `right` to uphold, the plan needs nothing but room.
    """
    mark = state.mark()
    bound = UpperBound(state, piece)
    ended: list[EndedUnit] = []
    in_vain: dict[tuple[Place, ...], dict[str, int]] = {}
    """Places of the piece in which the plan did not hold, with the right that was used."""

    def is_enough() -> bool:
        before = state.mark()
        if start_piece(state, piece):
            places = tuple(state.seated[task].place for task, _ in piece.tasks)
            used = {} if right is None else dict(right.taken)
            known = in_vain.get(places)
            if known is None or not known.items() <= used.items():
                is_final = state.all_could_return()
                came_back = come_back(state, ended, moves_max)
                if (came_back or not all_return) and (right is None or right.holds()):
                    return True
                if is_final:  # what ends from now on would only come back
                    in_vain[places] = used
        state.back(before)
        return False

    tried = first = following = 0
    for unit in picked:
        if state.budget.stops_plan():
            tried = len(ended)  # no time is left for another try
            break
        state.budget.spend(len(unit.tasks))
        seated = tuple(state.stop(task) for task in unit.tasks)
        ended.append(EndedUnit(unit, seated))
        bound.freed({(each.place.pool, each.place.seat.node) for each in seated})
        if not bound.has_chance() or len(ended) < following:
            continue
        if is_enough():
            return ended
        tried = len(ended)
        first = first or tried
        more = tried - first
        if more >= UNITS_MAX:
            break
        following = tried + max(more, 1)
    if len(ended) > tried and bound.has_chance() and is_enough():
        return ended
    state.back(mark)
    return None


def come_back(state: ClusterState, ended: Sequence[EndedUnit], moves_max: int) -> bool:
    """Let all units come back that can, the last first, to their place or another.

    Returns whether all did.
    """
    ends: set[str] = set()
    full: set[tuple[Shape, frozenset[str]]] = set()
    missing = False
    for each in reversed(ended):
        name = each.unit.workload.name
        moves = None if name in ends else _return(state, each, full, moves_max)
        if moves is None:
            missing = True
            if not each.unit.is_extra:
                ends.add(name)
        else:
            moves_max -= moves
    return not missing


def _return(
    state: ClusterState, ended: EndedUnit, full: set[tuple[Shape, frozenset[str]]], moves_max: int
) -> int | None:
    """How many of its tasks had to move; None: they have no place, or that is too many.

    `full` has the shapes for which no pool has room any more.
    """
    mark = state.mark()
    workload = ended.unit.workload
    is_tied = bool(workload.domain) or any(each.domain for each in workload.subgroups)
    elsewhere: list[tuple[Task, PlacedTask]] = []
    for task, seated in zip(ended.unit.tasks, ended.seated, strict=True):
        if not state.try_return(task, seated):
            elsewhere.append((task, seated))
    if len(elsewhere) > moves_max:
        state.back(mark)
        return None
    for task, seated in elsewhere:
        like = seated.shape, workload.pools
        masks = stay(state, task, seated.place) if is_tied else None
        if like in full or not state.try_start(task, seated.shape, workload, masks):
            if len(elsewhere) == len(ended.unit.tasks) == 1 and not (is_tied or state.companies):
                full.add(like)
            state.back(mark)
            return None
    return len(elsewhere)
