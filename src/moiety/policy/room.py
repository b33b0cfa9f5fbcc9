"""Makes room for a piece: ends or moves others in a trial, and keeps the result only if it works.

Units end one after the other, those first whose end does the least harm, until the piece has room.
Then those that were not in the way, or find another place, come back, the last to go first. What is
left is the plan; if it does not hold, everything is undone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from moiety.policy.arrays import Cluster, Ints
from moiety.policy.pending import Piece
from moiety.policy.snapshot import Task
from moiety.policy.state import Seated, State
from moiety.policy.victims import Leavers, Right, Unit, by_right
from moiety.policy.workloads import Shape

TRIES_MAX: Final = 64
"""how often one plan is tried out before it is given up"""
NODES_TRIED_MAX: Final = 32
IN_ORDER_MAX: Final = 64
"""units that end in their order before it is tried node by node"""
UNBOUNDED: Final = 1 << 30

Node = tuple[str, int]
"""a pool and the position of one of its nodes"""


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
        self._wanted = piece.shapes
        self._slots: dict[tuple[str, Shape], Ints] = {}
        self._sums: dict[Shape, int] = {}
        for shape, _ in self._wanted:
            total = 0
            for pool in state.pools.open_to(piece.workload):
                cluster = state.pools.placers[pool].cluster
                free = cluster.left, cluster.free_cpu, cluster.free_memory
                slots = _slots(cluster, shape, *free)
                self._slots[pool, shape] = slots
                total += int(slots.sum())
            self._sums[shape] = total

    def freed(self, places: Iterable[Node]) -> None:
        """Something ended on these nodes."""
        for pool, node in places:
            for shape, _ in self._wanted:
                slots = self._slots.get((pool, shape))
                if slots is None:
                    break
                now = _slots_of(self._state.pools.placers[pool].cluster, shape, node)
                self._sums[shape] += now - int(slots[node])
                slots[node] = now

    def has_chance(self) -> bool:
        """Whether each shape alone could have enough."""
        return all(self._sums[shape] >= count for shape, count in self._wanted)


def _slots(cluster: Cluster, shape: Shape, left: Ints, cpu: Ints, memory: Ints) -> Ints:
    """[N]: at most so many tasks of this shape have room on each node, if so much is free."""
    slots: Ints = np.full(len(cluster), UNBOUNDED, np.int64)
    if shape.cpu_milli:
        slots = np.minimum(slots, cpu // shape.cpu_milli)
    if shape.memory_mib:
        slots = np.minimum(slots, memory // shape.memory_mib)
    if shape.gpus:
        milli = np.broadcast_to(cluster.milli(shape), len(cluster))
        on_gpus = (left // np.maximum(milli, 1)[:, None]).sum(axis=1)
        slots = np.minimum(slots, on_gpus // shape.gpus)
        slots[(left >= milli[:, None]).sum(axis=1) < shape.gpus] = 0
        models = cluster.acceptable(shape)
        if models is not None:
            slots = np.where(models[cluster.model], slots, 0)
    return slots


def _slots_of(cluster: Cluster, shape: Shape, node: int) -> int:
    """The same for what is free on one node now."""
    slots = UNBOUNDED
    if shape.cpu_milli:
        slots = min(slots, int(cluster.free_cpu[node]) // shape.cpu_milli)
    if shape.memory_mib:
        slots = min(slots, int(cluster.free_memory[node]) // shape.memory_mib)
    if slots and shape.gpus:
        models = shape.models
        if models and cluster.nodes[node].model not in models:
            return 0
        milli = max(shape.milli_on(cluster.nodes[node].gpu_memory_mib), 1)
        on = [left // milli for left in cluster.left[node].tolist() if left >= milli]
        slots = min(slots, sum(on) // shape.gpus) if len(on) >= shape.gpus else 0
    return slots


def possible(state: State, piece: Piece, leavers: Leavers) -> bool:
    """Whether it could have room if all ended that may: False is certain, True is not."""
    for shape, count in piece.shapes:
        slots = 0
        for pool in state.pools.open_to(piece.workload):
            cluster = state.pools.placers[pool].cluster
            slots += int(_slots(cluster, shape, *leavers.emptied(pool)).sum())
        if slots < count:
            return False
    return True


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
        bound.freed({(each.place.pool, each.place.seat.node) for each in seated})
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
    full: set[tuple[Shape, frozenset[str]]] = set()
    missing = False
    for each in reversed(ended):
        name = each.unit.workload.name
        if name in ends or not _return(state, each, full):
            missing = True
            if not each.unit.is_extra:
                ends.add(name)
    return not missing


def _return(state: State, ended: Ended, full: set[tuple[Shape, frozenset[str]]]) -> bool:
    """`full` has the shapes for which no pool has room any more."""
    mark = state.mark()
    workload = ended.unit.workload
    elsewhere: list[tuple[Task, Seated]] = []
    for task, seated in zip(ended.unit.tasks, ended.seated, strict=True):
        if not state.try_return(task, seated):
            elsewhere.append((task, seated))
    for task, seated in elsewhere:
        like = seated.shape, workload.pools
        if like in full or not state.try_start(task, seated.shape, workload):
            if len(elsewhere) == len(ended.unit.tasks) == 1:
                full.add(like)
            state.back(mark)
            return False
    return True


def consolidate(state: State, piece: Piece, leavers: Leavers, moves_max: int) -> list[Ended] | None:
    """Make room by moving others, none of whom ends."""
    if moves_max <= 0 or not _is_free_in_sum(state, piece):
        return None
    single = [
        Unit(unit.order, unit.workload, (task,), unit.is_extra)
        for queue in leavers.queues
        for unit in leavers.of(queue)
        for task in unit.tasks
        if unit.workload.name != piece.workload.name
    ]
    single.sort(key=lambda unit: (_bytes(state, unit), unit.order))
    if len(piece.tasks) > 1:
        picked = iter(single[:moves_max])
        return _clear(state, piece, picked, lambda: True, all_return=True)
    for _, units in _by_node(state, piece, single, leavers)[:NODES_TRIED_MAX]:
        picked = iter(units[:moves_max])
        plan = _clear(state, piece, picked, lambda: True, all_return=True)
        if plan is not None:
            return plan
    return None


def reclaim(state: State, piece: Piece, leavers: Leavers) -> list[Ended] | None:
    """Make room by taking back from other queues what they have too much of."""
    right = Right(state, piece)
    others = [queue for queue in leavers.queues if queue != piece.workload.queue]
    if not any(right.could(queue) for queue in others):
        return None
    is_gang = len(piece.tasks) > 1
    if is_gang and not possible(state, piece, leavers):
        return None
    name = piece.workload.name
    picked = by_right(right, others, leavers.of, name)
    if not is_gang or piece.tasks[0][1].gpus > 1:
        picked = islice(picked, IN_ORDER_MAX)
    plan = _clear(state, piece, picked, right.holds, all_return=False)
    if plan is not None or not (is_gang or possible(state, piece, leavers)):
        return plan
    everyone = [unit for queue in others for unit in leavers.of(queue)]
    everyone.sort(key=lambda unit: unit.order)
    nodes = _by_node(state, piece, everyone, leavers)
    if is_gang:
        right = Right(state, piece)
        picked = _node_after_node(right, [units for _, units in nodes], name)
        return _clear(state, piece, picked, right.holds, all_return=False)
    for _, units in nodes[:NODES_TRIED_MAX]:
        right = Right(state, piece)
        picked = _node_after_node(right, [units], name)
        plan = _clear(state, piece, picked, right.holds, all_return=False)
        if plan is not None:
            return plan
    return None


def _node_after_node(right: Right, nodes: list[list[Unit]], without: str) -> Iterator[Unit]:
    """What there is a right to on the first node, then on the next."""
    gone: set[tuple[Task, ...]] = set()
    for units in nodes:
        by_queue: dict[str, list[Unit]] = {}
        for unit in units:
            if unit.tasks not in gone:
                by_queue.setdefault(unit.workload.queue, []).append(unit)
        for unit in by_right(right, by_queue, by_queue.__getitem__, without):
            gone.add(unit.tasks)
            yield unit


def preempt(state: State, piece: Piece, leavers: Leavers) -> list[Ended] | None:
    """Make room by ending what has a lower priority in the same queue."""
    workload = piece.workload
    lower = [
        unit
        for unit in leavers.of(workload.queue)
        if unit.workload.priority < workload.priority and unit.workload.name != workload.name
    ]
    if not lower or not possible(state, piece, leavers):
        return None
    plan = _clear(state, piece, iter(lower), lambda: True, all_return=False)
    if plan is not None or len(piece.tasks) == 1:
        return plan
    nodes = _by_node(state, piece, lower, leavers)
    seen = dict.fromkeys(unit for _, units in nodes for unit in units)
    return _clear(state, piece, iter(seen), lambda: True, all_return=False)


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


class _Need(NamedTuple):
    """What a node would have to free for one task, and who would have to end for that."""

    to_free: int
    """thousandths of GPUs"""
    rank: int
    """of the last who would have to end there, among all who could"""
    node: Node


def _by_node(
    state: State, piece: Piece, units: list[Unit], leavers: Leavers
) -> list[tuple[Node, list[Unit]]]:
    """The nodes that could take a task of the largest shape if all these ended: those on each.

    The nodes first on which the least of GPUs has to be freed, then those of who yields first.
    """
    shape = piece.tasks[0][1]
    could: dict[str, list[int]] = {}
    for pool in state.pools.open_to(piece.workload):
        cluster = state.pools.placers[pool].cluster
        could[pool] = _slots(cluster, shape, *leavers.emptied(pool)).tolist()
    on: dict[Node, list[tuple[int, Unit, Seated]]] = {}
    for rank, unit in enumerate(units):
        for task in unit.tasks:
            seated = state.seated.get(task)
            if seated is None:
                continue
            pool, (node, _, _) = seated.place
            if pool in could and could[pool][node]:
                on.setdefault((pool, node), []).append((rank, unit, seated))
    found: list[_Need] = []
    for (pool, node), here in on.items():
        need = _need(state.pools.placers[pool].cluster, shape, (pool, node), here)
        if need:
            found.append(need)
    found.sort()
    return [
        (need.node, list(dict.fromkeys(unit for _, unit, _ in on[need.node]))) for need in found
    ]


def _need(
    cluster: Cluster, shape: Shape, place: Node, here: list[tuple[int, Unit, Seated]]
) -> _Need | None:
    """None: it would not be enough in sum."""
    node = place[1]
    wanted = shape.gpus * shape.milli_on(cluster.nodes[node].gpu_memory_mib)
    gpu, cpu = int(cluster.left_total[node]), int(cluster.free_cpu[node])
    memory = int(cluster.free_memory[node])
    to_free = max(wanted - gpu, 0)
    last = -1
    queue = deque(here)
    while gpu < wanted or cpu < shape.cpu_milli or memory < shape.memory_mib:
        if not queue:
            return None
        last, _, seated = queue.popleft()
        gpu += seated.shape.gpus * seated.place.seat.gpu_milli
        cpu += seated.shape.cpu_milli
        memory += seated.shape.memory_mib
    return _Need(to_free, last, place)
