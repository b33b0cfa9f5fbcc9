"""Ends work of least worth, so that waiting work begins that is worth more or has a right to it.

In its queue, work of the same priority yields to work of much more worth (`gittins_order.yields`);
in other queues, work yields to which it has a right (`ReclaimCheck`). Nodes are emptied one after
the other, the one first on which the least worth is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.preempt.preemption_trial import EndedUnit, clear
from moiety.policy.preempt.rights import ReclaimCheck
from moiety.policy.preempt.upper_bound import Node
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.queue.gittins_order import YIELDS_AT, yields
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState, PlacedTask
from moiety.policy.state.gang_parts import GangPart


@dataclass(frozen=True, slots=True)
class _Yielding:
    """A unit that may end, with the worth that would be lost, and what it has on one node."""

    harm: float
    unit: VictimUnit
    here: tuple[PlacedTask, ...]


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
    if not state.budget.is_bounded and not _could_free(state, piece, leavers, taken_from):
        return None
    below = [
        unit
        for unit in leavers.of(workload.queue)
        if unit.workload.priority == workload.priority
        and (theirs := worth.get(unit.workload.name)) is not None
        and theirs * YIELDS_AT < mine
        and unit.tasks[0] in state.seated
        and (state.worth_ends or _can_rest(state, unit))
    ]
    for queue in taken_from:
        units = [
            unit
            for unit in leavers.of(queue)
            if unit.workload.name in worth and unit.tasks[0] in state.seated
        ]
        below += units if right.covers_all(queue) else filter(right.reaches, units)
    if not below:
        return None
    below.sort(key=lambda unit: (worth[unit.workload.name], unit.order))
    picked = _by_right(right, workload.queue, _by_harm(state, piece, below))
    return clear(state, piece, picked, right, moves_max, all_return=False)


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
    state: ClusterState, piece: GangPart, leavers: Victims, taken_from: Iterable[str]
) -> bool:
    """Whether there would be GPUs for all tasks of the first shape if all ended that may yield.

    It is a bound: rights to single units are left out.
    """
    (shape, count), workload = piece.shapes[0], piece.workload
    if shape.gpu_memory_mib or not shape.gpus:  # its part of a GPU differs from node to node
        return True
    wanted = shape.total_milli
    for pool in state.pools.open_to(workload):
        free = state.pools.placers[pool].cluster.left_total.copy()
        for queue in taken_from:
            free += leavers.freed(queue, pool).in_all
        own = leavers.freed(workload.queue, pool)
        if len(own.nodes):
            ends = yields(own.work.worth(state.worth), state.worth[workload.name])
            ends &= own.priorities == workload.priority
            np.add.at(free, own.nodes[ends], own.gpu_milli[ends])
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
    state: ClusterState, piece: GangPart, below: Sequence[VictimUnit]
) -> Iterator[VictimUnit]:
    """The units, node by node: first those of the node on which least worth would be lost."""
    shape = piece.tasks[0][1]
    plans: dict[Node, list[_Yielding]] = {}
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
    state: ClusterState, piece: GangPart, below: Sequence[VictimUnit]
) -> dict[Node, list[_Yielding]]:
    """The units on each node that has the GPUs for one task if all of them end."""
    shape, seated, worth = piece.tasks[0][1], state.seated, state.worth
    open_to = set(state.pools.open_to(piece.workload))
    frees: dict[Node, int] = {}
    for unit in below:
        for task in unit.tasks:
            each = seated[task]
            pool, (node, _, milli) = each.place
            if pool in open_to:
                frees[pool, node] = frees.get((pool, node), 0) + each.shape.gpus * milli
    on: dict[Node, list[_Yielding]] = {}
    for (pool, node), milli in frees.items():
        cluster = state.pools.placers[pool].cluster
        wanted = shape.gpus * shape.milli_on(cluster.nodes[node].gpu_memory_mib)
        if cluster.left_total.item(node) + milli >= wanted:
            on[pool, node] = []
    if not on:
        return {}
    for unit in below:
        parts: dict[Node, list[PlacedTask]] = {}
        gpu_milli = 0
        for task in unit.tasks:
            each = seated[task]
            gpu_milli += each.amounts[GPU_MILLI]
            at = each.place.pool, each.place.seat.node
            if at in on:
                parts.setdefault(at, []).append(each)
        if parts:
            harm = worth[unit.workload.name] * max(gpu_milli, 1)
            for at, here in parts.items():
                on[at].append(_Yielding(harm, unit, tuple(here)))
    return on


def _harm(plan: Sequence[_Yielding], picked: Container[tuple[Task, ...]]) -> float:
    return sum(each.harm for each in plan if each.unit.tasks not in picked)


def _on_node(
    cluster: NodeArrays, shape: Shape, node: int, units: Sequence[_Yielding]
) -> list[_Yielding] | None:
    """The units of least worth that free enough in sum for one task; None: all are too few."""
    wanted = shape.gpus * shape.milli_on(cluster.nodes[node].gpu_memory_mib)
    gpu = int(cluster.left_total[node]) - wanted
    cpu = int(cluster.free_cpu[node]) - shape.cpu_milli
    memory = int(cluster.free_memory[node]) - shape.memory_mib
    chosen: list[tuple[_Yielding, int, int, int]] = []
    for each in units:
        if gpu >= 0 and cpu >= 0 and memory >= 0:
            break
        more_gpu = more_cpu = more_memory = 0
        for one in each.here:
            more_gpu += one.shape.gpus * one.place.seat.gpu_milli
            more_cpu += one.shape.cpu_milli
            more_memory += one.shape.memory_mib
        gpu, cpu, memory = gpu + more_gpu, cpu + more_cpu, memory + more_memory
        chosen.append((each, more_gpu, more_cpu, more_memory))
    if gpu < 0 or cpu < 0 or memory < 0:
        return None
    for found in reversed(chosen[:]):
        _, *frees_ = found
        if gpu >= frees_[0] and cpu >= frees_[1] and memory >= frees_[2]:
            gpu, cpu, memory = gpu - frees_[0], cpu - frees_[1], memory - frees_[2]
            chosen.remove(found)
    return [each for each, *_ in chosen]
