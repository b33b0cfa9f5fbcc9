"""An upper bound of the room that a trial could make, found before the trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Ints
from moiety.policy.preempt.victims import VictimUnit
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart

Node = tuple[str, int]
"""A pool, and the position of one of its nodes."""


class UpperBound:
    """How many tasks of each shape of a piece could have room: never fewer than really have.

    It is kept up to date node by node, so that a trial is made only when it has a chance.
    """

    def __init__(self, state: ClusterState, piece: GangPart) -> None:
        self._state = state
        self._wanted = piece.shapes
        self._slots: dict[tuple[str, Shape], Ints] = {}
        self._sums: dict[Shape, int] = {}
        for shape, _ in self._wanted:
            total = 0
            for pool in state.pools.open_to(piece.workload):
                cluster = state.pools.placers[pool].cluster
                free = cluster.left, cluster.free_cpu, cluster.free_memory
                slots = cluster.slots(shape, *free)
                self._slots[pool, shape] = slots
                total += int(slots.sum())
            self._sums[shape] = total

    def freed(self, places: Iterable[Node]) -> None:
        """Note that tasks began or ended on these nodes."""
        for pool, node in places:
            for shape, _ in self._wanted:
                slots = self._slots.get((pool, shape))
                if slots is None:
                    break
                now = self._state.pools.placers[pool].cluster.slots_of(shape, node)
                self._sums[shape] += now - int(slots[node])
                slots[node] = now

    def has_chance(self) -> bool:
        """Whether each shape alone could have enough."""
        return all(self._sums[shape] >= count for shape, count in self._wanted)


def could_free(
    state: ClusterState, piece: GangPart, shape: Shape, count: int, units: Iterable[VictimUnit]
) -> bool:
    """Whether there would be GPUs for `count` tasks of a shape if these units ended; a bound."""
    wanted, pools = shape.total_milli, set(state.pools.open_to(piece.workload))
    frees: dict[Node, int] = {}
    for unit in units:
        for task in unit.tasks:
            seated = state.seated.get(task)
            if seated is not None and seated.place.pool in pools:
                node = seated.place.pool, seated.place.seat.node
                milli = seated.shape.gpus * seated.place.seat.gpu_milli
                frees[node] = frees.get(node, 0) + milli
    left = {pool: state.pools.placers[pool].cluster.left_total for pool in pools}
    for there in left.values():
        count -= int((there // wanted).sum())
    for (pool, at), milli in frees.items():
        free = left[pool].item(at)
        count -= (free + milli) // wanted - free // wanted
    return count <= 0


def enough_alone(
    state: ClusterState, piece: GangPart, units: Sequence[VictimUnit]
) -> list[VictimUnit]:
    """The units of which each alone, if it ended, would make room for one more task of a piece."""
    pools = set(state.pools.open_to(piece.workload))
    shapes = [shape for shape, _ in piece.shapes]

    def slots(places: Iterable[Node]) -> list[int]:
        return [
            state.pools.placers[pool].cluster.slots_of(shape, node)
            for pool, node in places
            for shape in shapes
        ]

    found = []
    for unit in units:
        seats = [state.seated[task].place for task in unit.tasks if task in state.seated]
        places = sorted({(pool, seat.node) for pool, seat in seats if pool in pools})
        before = slots(places)
        mark = state.mark()
        for task in unit.tasks:
            if task in state.seated:
                state.stop(task)
        if any(now > then for now, then in zip(slots(places), before, strict=True)):
            found.append(unit)
        state.back(mark)
    return found
