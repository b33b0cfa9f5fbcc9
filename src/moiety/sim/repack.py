"""New seats for all gangs that are entitled to run, when the present seats leave one no room.

Larger gangs are seated first, and each stays in its seats if it can. If all sizes, the nodes'
too, are powers of two, that always finds seats if there are enough GPUs. A stopped gang pays for a
restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moiety.sim.runs import Run
from moiety.sim.seats import Nodes, Seats


@dataclass(frozen=True, slots=True)
class Plan:
    """The gangs to stop, and then the gangs to start with their seats."""

    stops: Sequence[Run]
    starts: Sequence[tuple[Run, Seats]]


def repack(
    nodes: Nodes, must: Sequence[Run], others: Sequence[Run], values: Mapping[int, float]
) -> Plan | None:
    """Seats for all gangs that must run, waiting or running, and for `others` as far as they fit.

    `others` run now; the most valuable first, they stay, or else move. None: the gangs that must
    run find no seats together, neither around gangs that stay nor largest first on empty nodes.
    """
    ranked = sorted(must, key=lambda run: (-run.gang.gpus, not run.is_running, run.number))
    waits = [run for run in ranked if not run.is_running]
    sits = [run for run in ranked if run.is_running]
    empty = [size if up else 0 for size, up in zip(nodes.size, nodes.up, strict=True)]
    for line, may_stay in (([*sits, *waits], True), (ranked, True), (ranked, False)):
        free = list(empty)
        seats = _seat(nodes, line, free, may_stay=may_stay)
        if seats is not None:
            break
    else:
        return None
    later = sorted(others, key=lambda run: (-values[run.number], run.number))
    moved = []
    for run in later:
        if _has_room(free, run.seats):
            _take(free, run.seats)
            seats[run.number] = run.seats
        else:
            moved.append(run)
    for run in moved:
        found = nodes.find(run.gang.gpus, free)
        if found is not None:
            _take(free, found)
            seats[run.number] = found
    stops = [run for run in (*sits, *later) if seats.get(run.number) != run.seats]
    again = [run for run in stops if run.number in seats]
    return Plan(stops, [(run, seats[run.number]) for run in (*waits, *again)])


def _seat(
    nodes: Nodes, line: Sequence[Run], free: list[int], *, may_stay: bool
) -> dict[int, Seats] | None:
    """The seats of each gang, in that order; None: a gang finds no room."""
    seats: dict[int, Seats] = {}
    for run in line:
        stays = may_stay and run.is_running and _has_room(free, run.seats)
        found = run.seats if stays else nodes.find(run.gang.gpus, free)
        if found is None:
            return None
        _take(free, found)
        seats[run.number] = found
    return seats


def _has_room(free: Sequence[int], seats: Seats) -> bool:
    return all(free[at] >= gpus for at, gpus in seats)


def _take(free: list[int], seats: Seats) -> None:
    for at, gpus in seats:
        free[at] -= gpus
