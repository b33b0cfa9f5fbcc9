"""Ends work of least worth, so that waiting work begins that is worth more or has a right to it.

In its queue, work of the same priority yields to work of much more worth (`gittins_order.yields`);
in other queues, work yields to which it has a right (`ReclaimCheck`). Nodes are emptied one after
the other, the one first on which the least worth is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.arrays import Bools, NodeArrays
from moiety.policy.preempt.preemption_trial import EndedUnit, clear
from moiety.policy.preempt.rights import ReclaimCheck
from moiety.policy.preempt.upper_bound import Node
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.queue.gittins_order import YIELDS_AT, yields
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart


class _Yielding(NamedTuple):
    """A unit that may end: the least worth sorts first."""

    worth: float
    order: tuple[object, ...]
    unit: VictimUnit


class _OnNode(NamedTuple):
    """A unit that may end, with the worth that would be lost, and what it has on one node."""

    harm: float
    unit: VictimUnit
    gpu_milli: int
    cpu_milli: int
    memory_mib: int


def outrank(
    state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int
) -> list[EndedUnit] | None:
    """Make room by ending work that is worth much less; None: there is not enough of it."""
    workload, worth = piece.workload, state.worth
    mine = worth.get(workload.name)
    if mine is None:
        return None
    right = ReclaimCheck(state, piece)
    taken_from = right.open_queues(leavers.queues)
    own = _below(state, workload, leavers)
    if not taken_from and not own:
        return None
    if not state.budget.is_bounded and not _could_free(state, piece, leavers, taken_from, own):
        return None
    seated = state.seated
    below = [
        _Yielding(theirs, unit.order, unit)
        for unit in (leavers.of(workload.queue) if own else ())
        if unit.workload.priority == workload.priority
        and (theirs := worth.get(unit.workload.name)) is not None
        and theirs * YIELDS_AT < mine
        and unit.tasks[0] in seated
        and (state.worth_ends or _can_rest(state, unit))
    ]
    for queue in taken_from:
        below += [
            _Yielding(theirs, unit.order, unit)
            for unit in right.reached(queue, leavers.of(queue))
            if (theirs := worth.get(unit.workload.name)) is not None and unit.tasks[0] in seated
        ]
    if not below:
        return None
    below.sort()
    picked = _by_right(right, workload.queue, _by_harm(state, piece, below))
    return clear(state, piece, picked, right, moves_max, all_return=False)


def _below(state: ClusterState, workload: Workload, leavers: Victims) -> dict[str, Bools]:
    """The rows of `freed` of work that is worth much less than work of its queue, by pool.

    Pools without any are left out.
    """
    mine = state.worth[workload.name]
    found = {}
    for pool in state.pools.placers:
        own = leavers.freed(workload.queue, pool)
        if len(own.nodes):
            ends = yields(own.work.worth(state.worth), mine)
            if own.priority != workload.priority:
                ends &= own.priorities == workload.priority
            if ends.any():
                found[pool] = ends
    return found


def _can_rest(state: ClusterState, unit: VictimUnit) -> bool:
    """Whether a unit can be suspended: its memory can move, and its hosts have room for that."""
    needs: dict[str, int] = {}
    for task in unit.tasks:
        began = state.began.get(task)
        if began is None or not began.state_bytes:
            return False
        needs[began.spot.node] = needs.get(began.spot.node, 0) + began.state_bytes
    free = state.snapshot.host_free
    return all(free.get(node, 0) >= wanted for node, wanted in needs.items())


def _could_free(
    state: ClusterState,
    piece: GangPart,
    leavers: Victims,
    taken_from: Iterable[str],
    own: Mapping[str, Bools],
) -> bool:
    """Whether there would be GPUs for all tasks of the first shape if all ended that may yield.

    It is a bound: rights to single units are left out. `own` has the rows of its own queue.
    """
    (shape, count), workload = piece.shapes[0], piece.workload
    if shape.gpu_memory_mib or not shape.gpus:  # its part of a GPU differs from node to node
        return True
    wanted = shape.total_milli
    for pool in state.pools.open_to(workload):
        free = state.pools.placers[pool].cluster.left_total.copy()
        for queue in taken_from:
            free += leavers.freed(queue, pool).in_all
        if (ends := own.get(pool)) is not None:
            freed = leavers.freed(workload.queue, pool)
            np.add.at(free, freed.nodes[ends], freed.gpu_milli[ends])
        count -= int((free // wanted).sum())
        if count <= 0:
            return True
    return False


def _by_right(right: ReclaimCheck, queue: str, units: Iterable[VictimUnit]) -> Iterator[VictimUnit]:
    """The units that may still be taken after those before them have ended."""
    for unit in units:
        other = unit.workload.queue
        if other != queue:
            if not (right.could(other) and right.reaches(unit)):
                continue
            right.take(unit)
        yield unit


def _by_harm(
    state: ClusterState, piece: GangPart, below: Iterable[_Yielding]
) -> Iterator[VictimUnit]:
    """The units, node by node: first those of the node on which least worth would be lost."""
    shape = piece.tasks[0][1]
    plans: dict[Node, list[_OnNode]] = {}
    for (pool, node), units in _on_nodes(state, piece, below).items():
        plan = _on_node(state.pools.placers[pool].cluster, shape, node, units)
        if plan is not None:
            plans[pool, node] = plan
    of_gang: dict[tuple[Task, ...], list[Node]] = {}
    for at, plan in plans.items():
        for each in plan:
            if len(each.unit.tasks) > 1:
                of_gang.setdefault(each.unit.tasks, []).append(at)
    picked: set[tuple[Task, ...]] = set()
    harm = {at: _harm(plan, picked) for at, plan in plans.items()}
    line = [(lost, at) for at, lost in harm.items()]
    heapq.heapify(line)
    while line:
        lost, at = heapq.heappop(line)
        if harm.get(at) != lost:
            continue
        del harm[at]
        for each in plans[at]:
            tasks = each.unit.tasks
            if tasks in picked:
                continue
            picked.add(tasks)
            for other in of_gang.get(tasks, ()):  # what ends here costs nothing more there
                if other in harm:
                    harm[other] = _harm(plans[other], picked)
                    heapq.heappush(line, (harm[other], other))
            yield each.unit


def _on_nodes(
    state: ClusterState, piece: GangPart, below: Iterable[_Yielding]
) -> dict[Node, list[_OnNode]]:
    """The units on each node, in their order."""
    seated = state.seated
    open_to = set(state.pools.open_to(piece.workload))
    on: dict[Node, list[_OnNode]] = {}
    for worth, _, unit in below:
        tasks = unit.tasks
        if len(tasks) == 1:  # the usual case, and quick
            shape, (pool, (node, _, milli)), amounts = seated[tasks[0]]
            if pool in open_to:
                harm = worth * max(amounts[GPU_MILLI], 1)
                frees = shape.gpus * milli, shape.cpu_milli, shape.memory_mib
                on.setdefault((pool, node), []).append(_OnNode(harm, unit, *frees))
            continue
        all_ = [seated[task] for task in tasks]
        harm = worth * max(sum([each.amounts[GPU_MILLI] for each in all_]), 1)
        parts: dict[Node, tuple[int, int, int]] = {}
        for shape, (pool, (node, _, milli)), _ in all_:
            if pool in open_to:
                gpu, cpu, memory = parts.get((pool, node), (0, 0, 0))
                gpu += shape.gpus * milli
                parts[pool, node] = gpu, cpu + shape.cpu_milli, memory + shape.memory_mib
        for at, frees in parts.items():
            on.setdefault(at, []).append(_OnNode(harm, unit, *frees))
    return on


def _harm(plan: Sequence[_OnNode], picked: Container[tuple[Task, ...]]) -> float:
    if not picked:
        return sum([each.harm for each in plan])
    return sum([each.harm for each in plan if each.unit.tasks not in picked])


def _on_node(
    cluster: NodeArrays, shape: Shape, node: int, units: Sequence[_OnNode]
) -> list[_OnNode] | None:
    """The units of least worth that free enough in sum for one task; None: all are too few."""
    free = cluster.free_on(node)
    gpu = free.left_total - shape.gpus * shape.milli_on(cluster.nodes[node].gpu_memory_mib)
    cpu = free.cpu_milli - shape.cpu_milli
    memory = free.memory_mib - shape.memory_mib
    chosen: list[_OnNode] = []
    for each in units:
        if gpu >= 0 and cpu >= 0 and memory >= 0:
            break
        gpu, cpu, memory = gpu + each.gpu_milli, cpu + each.cpu_milli, memory + each.memory_mib
        chosen.append(each)
    if gpu < 0 or cpu < 0 or memory < 0:
        return None
    needed: list[_OnNode] = []
    for each in reversed(chosen):
        if gpu >= each.gpu_milli and cpu >= each.cpu_milli and memory >= each.memory_mib:
            gpu, cpu, memory = gpu - each.gpu_milli, cpu - each.cpu_milli, memory - each.memory_mib
        else:
            needed.append(each)
    needed.reverse()
    return needed
