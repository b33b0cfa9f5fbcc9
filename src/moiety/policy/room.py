"""Makes room for a piece: ends or moves others in a trial, and keeps the result only if it works.

Units end one after the other, those first whose end does the least harm, until the piece has room.
Then those that were not in the way, or find another place, come back, the last to go first. What is
left is the plan; if it does not hold, everything is undone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple

from moiety.policy.arrays import Cluster
from moiety.policy.bound import Bound, Node, enough_alone
from moiety.policy.pending import Piece
from moiety.policy.pools import Masks
from moiety.policy.snapshot import Task
from moiety.policy.state import Seated, State
from moiety.policy.together import candidates, required, start_piece, stay
from moiety.policy.victims import OPPORTUNISTS, Leavers, Right, Unit, by_right
from moiety.policy.workloads import Shape

TRIES_MAX: Final = 64
"""how often one plan is tried out before it is given up"""
NODES_TRIED_MAX: Final = 32
GANG_NODES_MAX: Final = 8
"""of which each alone is tried for a whole gang"""
AREAS_MAX: Final = 8
"""domains of the topology in which room is made"""
UNITS_MAX: Final = 64
"""units that are looked at one by one"""
FEW_TRIED_MAX: Final = 4
IN_ORDER_MAX: Final = 64
"""units that end in their order before it is tried node by node"""


@dataclass(frozen=True, slots=True)
class Ended:
    """A unit that ended in a trial, and where its tasks were."""

    unit: Unit
    seated: tuple[Seated, ...]


def openings(state: State, piece: Piece, leavers: Leavers) -> list[Masks | None]:
    """Where it could have room if all ended that may: one for each domain that would do.

    None in the list: anywhere. None at all: it could not, for certain.
    """
    domain = required(piece)
    pools = list(state.pools.open_to(piece.workload))
    slots = {
        (pool, shape): state.pools.placers[pool].cluster.slots(shape, *leavers.emptied(pool))
        for pool in pools
        for shape, _ in piece.shapes
    }
    if domain is None:
        if all(
            sum(int(slots[pool, shape].sum()) for pool in pools) >= count
            for shape, count in piece.shapes
        ):
            return [None]
        return []
    found: list[Masks | None] = [
        area.masks
        for area in candidates(state, piece, domain)
        if all(
            sum(int(slots[pool, shape][area.masks[pool].nodes].sum()) for pool in pools) >= count
            for shape, count in piece.shapes
        )
    ]
    return found[:AREAS_MAX]


def _touches(state: State, unit: Unit, masks: Masks | None) -> bool:
    """Whether any of it is there."""
    if masks is None:
        return True
    places = [state.seated[task].place for task in unit.tasks if task in state.seated]
    return any(masks[place.pool].nodes[place.seat.node] for place in places)


def _clear(
    state: State,
    piece: Piece,
    picked: Iterator[Unit],
    holds: Callable[[], bool],
    moves_max: int,
    *,
    all_return: bool,
) -> list[Ended] | None:
    """End what is picked until the piece has room; what stayed ended or moved, or None.

    No more than `moves_max` tasks move: what would have to move beyond that stays ended.
    """
    mark = state.mark()
    bound = Bound(state, piece)
    ended: list[Ended] = []
    tries = 0
    for unit in picked:
        if state.budget.stops_plan():
            break
        state.budget.spend(len(unit.tasks))
        seated = tuple(state.stop(task) for task in unit.tasks)
        ended.append(Ended(unit, seated))
        bound.freed({(each.place.pool, each.place.seat.node) for each in seated})
        if not bound.has_chance():
            continue
        before = state.mark()
        if start_piece(state, piece):
            came_back = _come_back(state, ended, moves_max)
            if (came_back or not all_return) and holds():
                return ended
        state.back(before)
        tries += 1
        if tries == TRIES_MAX:
            break
    state.back(mark)
    return None


def _come_back(state: State, ended: list[Ended], moves_max: int) -> bool:
    """Let everything come back that can, where it was or elsewhere; whether all of it did."""
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
    state: State, ended: Ended, full: set[tuple[Shape, frozenset[str]]], moves_max: int
) -> int | None:
    """How many of its tasks had to move; None: they have no place, or that is too many.

    `full` has the shapes for which no pool has room any more.
    """
    mark = state.mark()
    workload = ended.unit.workload
    is_tied = bool(workload.domain) or any(each.domain for each in workload.subgroups)
    elsewhere: list[tuple[Task, Seated]] = []
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
        return _clear(state, piece, picked, lambda: True, moves_max, all_return=True)
    for _, units in _by_node(state, piece, single, leavers)[:NODES_TRIED_MAX]:
        picked = iter(units[:moves_max])
        plan = _clear(state, piece, picked, lambda: True, moves_max, all_return=True)
        if plan is not None:
            return plan
    return None


def displace(state: State, piece: Piece, leavers: Leavers, moves_max: int) -> list[Ended] | None:
    """Make room by ending what is there only as long as nobody else wants the room."""
    return _by_end(state, piece, leavers, leavers.of(OPPORTUNISTS), moves_max)


def preempt(state: State, piece: Piece, leavers: Leavers, moves_max: int) -> list[Ended] | None:
    """Make room by ending what has a lower priority in the same queue, and who counts for none."""
    workload = piece.workload
    lower = [
        unit
        for unit in leavers.of(workload.queue)
        if unit.workload.priority < workload.priority and unit.workload.name != workload.name
    ]
    if not lower:
        return None
    return _by_end(state, piece, leavers, [*leavers.of(OPPORTUNISTS), *lower], moves_max)


def whoever(state: State, piece: Piece, leavers: Leavers, moves_max: int) -> list[Ended] | None:
    """Make room by ending anybody, in the order of harm, without regard to rights."""
    units = [
        unit
        for queue in leavers.queues
        for unit in leavers.of(queue)
        if unit.workload.name != piece.workload.name
    ]
    units.sort(key=lambda unit: unit.order)
    return _by_end(state, piece, leavers, [*leavers.of(OPPORTUNISTS), *units], moves_max)


def _by_end(
    state: State, piece: Piece, leavers: Leavers, units: Sequence[Unit], moves_max: int
) -> list[Ended] | None:
    if not units:
        return None
    for masks in openings(state, piece, leavers):
        here = [unit for unit in units if _touches(state, unit, masks)]
        plan = _clear(state, piece, iter(here), lambda: True, moves_max, all_return=False)
        if plan is None and len(piece.tasks) > 1:
            nodes = _by_node(state, piece, here, leavers)
            seen = dict.fromkeys(unit for _, found in nodes for unit in found)
            plan = _clear(state, piece, iter(seen), lambda: True, moves_max, all_return=False)
        if plan is not None:
            return plan
    return None


def reclaim(state: State, piece: Piece, leavers: Leavers, moves_max: int) -> list[Ended] | None:
    """Make room by taking back from other queues what they have too much of."""
    right = Right(state, piece)
    others = [queue for queue in leavers.queues if queue != piece.workload.queue]
    if not any(right.could(queue) for queue in others):
        return None
    if len(piece.tasks) == 1 and not piece.is_tied:
        plan = _in_order(state, piece, leavers, others, None, moves_max)
        if plan is not None:
            return plan
    for masks in openings(state, piece, leavers):
        plan = None
        if len(piece.tasks) > 1 or piece.is_tied:
            plan = _in_order(state, piece, leavers, others, masks, moves_max)
        plan = plan or _in_nodes(state, piece, leavers, others, masks, moves_max)
        plan = plan or _with_few(state, piece, leavers, others, masks, moves_max)
        if plan is not None:
            return plan
    return None


def _in_order(
    state: State,
    piece: Piece,
    leavers: Leavers,
    others: list[str],
    masks: Masks | None,
    moves_max: int,
    among: Container[Unit] | None = None,
) -> list[Ended] | None:
    """Who yields first ends first, wherever it is. `among` restricts who."""

    def of(queue: str) -> Sequence[Unit]:
        found = leavers.of(queue)
        if among is not None:
            return [unit for unit in found if unit in among]
        return found if masks is None else [u for u in found if _touches(state, u, masks)]

    right = Right(state, piece)
    picked: Iterator[Unit] = chain(
        of(OPPORTUNISTS), by_right(right, others, of, piece.workload.name)
    )
    if len(piece.tasks) == 1 or piece.tasks[0][1].gpus > 1:
        picked = islice(picked, IN_ORDER_MAX)
    return _clear(state, piece, picked, right.holds, moves_max, all_return=False)


def _with_few(
    state: State,
    piece: Piece,
    leavers: Leavers,
    others: list[str],
    masks: Masks | None,
    moves_max: int,
) -> list[Ended] | None:
    """Only units of which each alone makes room for a task, first all of them, then fewer.

    So the right to take from a queue is not used up by small ones that are of no use, nor by large
    ones of which too much would have to be taken.
    """
    right = Right(state, piece)
    here = [
        unit
        for queue in others
        if right.could(queue)
        for unit in leavers.of(queue)[:UNITS_MAX]
        if _touches(state, unit, masks)
    ]
    enough = enough_alone(state, piece, sorted(here, key=lambda unit: unit.order)[:UNITS_MAX])
    for first in range(min(len(enough), FEW_TRIED_MAX)):
        few = set(enough[first:])
        plan = _in_order(state, piece, leavers, others, masks, moves_max, among=few)
        if plan is not None:
            return plan
    return None


def _in_nodes(
    state: State,
    piece: Piece,
    leavers: Leavers,
    others: list[str],
    masks: Masks | None,
    moves_max: int,
) -> list[Ended] | None:
    """The same node by node: for a gang on one after the other, then on each alone."""
    everyone = [unit for queue in others for unit in leavers.of(queue)]
    everyone += leavers.of(OPPORTUNISTS)
    everyone = [unit for unit in everyone if _touches(state, unit, masks)]
    everyone.sort(key=lambda unit: (not unit.workload.is_opportunistic, unit.order))
    nodes = [units for _, units in _by_node(state, piece, everyone, leavers)]
    tries = [[units] for units in nodes[:NODES_TRIED_MAX]]
    if len(piece.tasks) > 1:
        tries = [nodes, *tries[:GANG_NODES_MAX]] if len(nodes) > 1 else [nodes]
    for some in tries:
        right = Right(state, piece)
        picked = _node_after_node(right, some, piece.workload.name)
        plan = _clear(state, piece, picked, right.holds, moves_max, all_return=False)
        if plan is not None:
            return plan
    return None


def _node_after_node(right: Right, nodes: list[list[Unit]], without: str) -> Iterator[Unit]:
    """What there is a right to on the first node, then on the next."""
    gone: set[tuple[Task, ...]] = set()
    for units in nodes:
        by_queue: dict[str, list[Unit]] = {}
        for unit in units:
            if unit.tasks in gone:
                continue
            if unit.workload.is_opportunistic:
                gone.add(unit.tasks)
                yield unit
            else:
                by_queue.setdefault(unit.workload.queue, []).append(unit)
        for unit in by_right(right, by_queue, by_queue.__getitem__, without):
            gone.add(unit.tasks)
            yield unit


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
        could[pool] = cluster.slots(shape, *leavers.emptied(pool)).tolist()
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
