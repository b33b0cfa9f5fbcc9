"""Makes room for a piece: ends or moves others in a trial, and keeps the result only if it works.

Units end one after the other, those first whose end does the least harm, until the piece has room.
Then those that were not in the way, or find another place, come back, the last to go first. What is
left is the plan; if it does not hold, everything is undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from moiety.policy.arrays import Cluster, Ints
from moiety.policy.pending import Piece
from moiety.policy.snapshot import Task
from moiety.policy.state import Seated, State
from moiety.policy.victims import Right, Unit, by_right
from moiety.policy.workloads import Shape

TRIES_MAX: Final = 64
"""how often one plan is tried out before it is given up"""
NODES_TRIED_MAX: Final = 32
UNBOUNDED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Ended:
    """A unit that ended in a trial, and where its tasks were."""

    unit: Unit
    seated: tuple[Seated, ...]


def start_piece(state: State, piece: Piece) -> bool:
    """All of its tasks begin, or none."""
    mark = state.mark()
    for task, shape in piece.tasks:
        if not state.try_start(task, shape, piece.workload):
            state.back(mark)
            return False
    return True


class Bound:
    """How many tasks of each shape of a piece could have room: never fewer than there have.

    Kept up to date node by node, so that a trial is made only when it has a chance.
    """

    def __init__(self, state: State, piece: Piece) -> None:
        self._state = state
        self._wanted = Counter(shape for _, shape in piece.tasks)
        self._open = set(state.pools.open_to(piece.workload))
        self._slots: dict[tuple[str, Shape], Ints] = {}
        self._sums: Counter[Shape] = Counter()
        for shape in self._wanted:
            for pool in self._open:
                cluster = state.pools.placers[pool].cluster
                slots = _slots(cluster, shape, np.arange(len(cluster)))
                self._slots[pool, shape] = slots
                self._sums[shape] += int(slots.sum())

    def freed(self, pool: str, nodes: Iterable[int]) -> None:
        """Something ended on these nodes."""
        if pool not in self._open:
            return
        at = np.array(sorted(set(nodes)), np.int64)
        cluster = self._state.pools.placers[pool].cluster
        for shape in self._wanted:
            slots = self._slots[pool, shape]
            now = _slots(cluster, shape, at)
            self._sums[shape] += int(now.sum() - slots[at].sum())
            slots[at] = now

    def has_chance(self) -> bool:
        """Whether each shape alone could have enough."""
        return all(self._sums[shape] >= count for shape, count in self._wanted.items())


def _slots(cluster: Cluster, shape: Shape, nodes: Ints) -> Ints:
    """[len(nodes)]: at most so many tasks of this shape have room there."""
    slots: Ints = np.full(len(nodes), UNBOUNDED, np.int64)
    if shape.cpu_milli:
        slots = np.minimum(slots, cluster.free_cpu[nodes] // shape.cpu_milli)
    if shape.memory_mib:
        slots = np.minimum(slots, cluster.free_memory[nodes] // shape.memory_mib)
    if shape.gpus:
        milli = np.broadcast_to(cluster.milli(shape, nodes), len(nodes))
        on_gpus = (cluster.left[nodes] // np.maximum(milli, 1)[:, None]).sum(axis=1)
        slots = np.minimum(slots, on_gpus // shape.gpus)
        models = cluster.acceptable(shape)
        if models is not None:
            slots = np.where(models[cluster.model[nodes]], slots, 0)
    return slots


def _clear(
    state: State,
    piece: Piece,
    picked: Iterator[Unit],
    holds: Callable[[], bool],
    *,
    all_return: bool,
) -> list[Ended] | None:
    """End what is picked until the piece has room; what stayed ended or moved, or None."""
    mark = state.mark()
    bound = Bound(state, piece)
    ended: list[Ended] = []
    tries = 0
    for unit in picked:
        seated = tuple(state.stop(task) for task in unit.tasks)
        ended.append(Ended(unit, seated))
        for pool in {each.place.pool for each in seated}:
            bound.freed(pool, [each.place.seat.node for each in seated if each.place.pool == pool])
        if not bound.has_chance():
            continue
        before = state.mark()
        if start_piece(state, piece):
            came_back = _come_back(state, ended)
            if (came_back or not all_return) and holds():
                return ended
        state.back(before)
        tries += 1
        if tries == TRIES_MAX:
            break
    state.back(mark)
    return None


def _come_back(state: State, ended: list[Ended]) -> bool:
    """Let everything come back that can, where it was or elsewhere; whether all of it did."""
    ends: set[str] = set()
    missing = False
    for each in reversed(ended):
        name = each.unit.workload.name
        if name in ends or not _return(state, each):
            missing = True
            if not each.unit.is_extra:
                ends.add(name)
    return not missing


def _return(state: State, ended: Ended) -> bool:
    mark = state.mark()
    elsewhere: list[tuple[Task, Seated]] = []
    for task, seated in zip(ended.unit.tasks, ended.seated, strict=True):
        if not state.try_return(task, seated):
            elsewhere.append((task, seated))
    for task, seated in elsewhere:
        if not state.try_start(task, seated.shape, ended.unit.workload):
            state.back(mark)
            return False
    return True


def consolidate(
    state: State, piece: Piece, below: dict[str, list[Unit]], moves_max: int
) -> list[Ended] | None:
    """Make room by moving others, none of whom ends."""
    if not _is_free_in_sum(state, piece):
        return None
    single = [
        Unit(unit.workload, (task,), unit.is_extra, unit.since_s)
        for found in below.values()
        for unit in found
        for task in unit.tasks
        if task in state.seated
    ]
    single.sort(key=lambda unit: (_bytes(state, unit), unit.order))
    if len(piece.tasks) > 1:
        picked = iter(single[:moves_max])
        return _clear(state, piece, picked, lambda: True, all_return=True)
    for units in _by_node(state, piece, single):
        picked = iter(units[:moves_max])
        plan = _clear(state, piece, picked, lambda: True, all_return=True)
        if plan is not None:
            return plan
    return None


def reclaim(state: State, piece: Piece, below: dict[str, list[Unit]]) -> list[Ended] | None:
    """Make room by taking back from other queues what they have too much of."""
    queue = piece.workload.queue
    if not any(Right(state, piece).could(other) for other in below):
        return None
    right = Right(state, piece)
    plan = _clear(state, piece, by_right(right, below), right.holds, all_return=False)
    if plan is not None or len(piece.tasks) > 1:
        return plan
    everyone = [unit for other, found in below.items() if other != queue for unit in found]
    everyone.sort(key=lambda unit: unit.order)
    for units in _by_node(state, piece, everyone):
        right = Right(state, piece)
        picked = by_right(right, below, set(units))
        plan = _clear(state, piece, picked, right.holds, all_return=False)
        if plan is not None:
            return plan
    return None


def preempt(state: State, piece: Piece, below: dict[str, list[Unit]]) -> list[Ended] | None:
    """Make room by ending what has a lower priority in the same queue."""
    workload = piece.workload
    lower = [
        unit for unit in below.get(workload.queue, ()) if unit.workload.priority < workload.priority
    ]
    if not lower:
        return None
    return _clear(state, piece, iter(lower), lambda: True, all_return=False)


def _bytes(state: State, unit: Unit) -> int:
    return sum(state.began[task].state_bytes for task in unit.tasks if task in state.began)


def _is_free_in_sum(state: State, piece: Piece) -> bool:
    """Whether the pools have as much free as it asks for, wherever that is."""
    gpu = cpu = memory = 0
    for pool in state.pools.open_to(piece.workload):
        cluster = state.pools.placers[pool].cluster
        gpu += int(cluster.left_total.sum())
        cpu += int(cluster.free_cpu.sum())
        memory += int(cluster.free_memory.sum())
    asked_gpu, _, asked_cpu, asked_memory = piece.amounts
    return gpu >= asked_gpu and cpu >= asked_cpu and memory >= asked_memory


def _by_node(state: State, piece: Piece, units: list[Unit]) -> Iterator[list[Unit]]:
    """For the nodes that could take the task if all these units were not there: those on it.

    The nodes first on which the least of GPUs has to be freed, then those of who yields first.
    """
    [(_, shape)] = piece.tasks
    on: dict[tuple[str, int], list[Unit]] = {}
    rank: dict[tuple[str, int], int] = {}
    for at, unit in enumerate(units):
        for node in {(each.place.pool, each.place.seat.node) for each in _seats(state, unit)}:
            on.setdefault(node, []).append(unit)
            rank.setdefault(node, at)
    found: list[tuple[int, int, tuple[str, int]]] = []
    for (pool, at), here in on.items():
        cluster = state.pools.placers[pool].cluster
        milli = cluster.milli(shape, slice(at, at + 1))
        wanted = shape.gpus * (milli if isinstance(milli, int) else int(milli[0]))
        gpu, cpu, memory = (
            int(array[at]) for array in (cluster.left_total, cluster.free_cpu, cluster.free_memory)
        )
        to_free = max(wanted - gpu, 0)
        for unit in here:
            for each in _seats(state, unit):
                if (each.place.pool, each.place.seat.node) == (pool, at):
                    gpu += each.shape.gpus * each.place.seat.gpu_milli
                    cpu += each.shape.cpu_milli
                    memory += each.shape.memory_mib
        if gpu >= wanted and cpu >= shape.cpu_milli and memory >= shape.memory_mib:
            found.append((to_free, rank[pool, at], (pool, at)))
    found.sort()
    for _, _, place in found[:NODES_TRIED_MAX]:
        yield on[place]


def _seats(state: State, unit: Unit) -> list[Seated]:
    return [state.seated[task] for task in unit.tasks if task in state.seated]
