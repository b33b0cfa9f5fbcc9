"""The nodes on which room could be made for a piece, the least harm first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.place.pools import Masks
from moiety.policy.preempt.upper_bound import Node
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.state.cluster_state import ClusterState, PlacedTask
from moiety.policy.state.gang_parts import GangPart
from moiety.policy.state.gang_start import candidates, required

AREAS_MAX: Final = 8
"""The most domains of the topology in which room is made."""


def openings(state: ClusterState, piece: GangPart, leavers: Victims) -> list[Masks | None]:
    """Where a piece could have room if all possible victims ended: one mask for each domain.

    None in the list: anywhere. An empty list: it has no room for certain.
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


def touches(state: ClusterState, unit: VictimUnit, masks: Masks | None) -> bool:
    """Whether a task of a unit is on the nodes of the masks."""
    if masks is None:
        return True
    places = [state.seated[task].place for task in unit.tasks if task in state.seated]
    return any(masks[place.pool].nodes[place.seat.node] for place in places)


def is_free_in_sum(state: ClusterState, piece: GangPart) -> bool:
    """Whether the pools have as much free in sum as a piece asks for."""
    gpu = cpu = memory = 0
    for pool in state.pools.open_to(piece.workload):
        cluster = state.pools.placers[pool].cluster
        gpu += int(cluster.left_total.sum())
        cpu += int(cluster.free_cpu.sum())
        memory += int(cluster.free_memory.sum())
    asked_gpu, _, asked_cpu, asked_memory = piece.amounts
    return gpu >= asked_gpu and cpu >= asked_cpu and memory >= asked_memory


class _Need(NamedTuple):
    """What a node would have to free for one task, and how far the units there would end for it."""

    to_free: int
    """Thousandths of GPUs."""
    rank: int
    """The rank of the last unit that would have to end there, among all units."""
    node: Node


def by_node(
    state: ClusterState, piece: GangPart, units: list[VictimUnit], leavers: Victims
) -> Iterator[tuple[Node, list[VictimUnit]]]:
    """The nodes that could take a task of the largest shape if all units ended, with their units.

    Nodes on which the least of GPUs has to be freed come first, then nodes whose units yield first.
    """
    shape = piece.tasks[0][1]
    could: dict[str, list[int]] = {}
    for pool in state.pools.open_to(piece.workload):
        cluster = state.pools.placers[pool].cluster
        could[pool] = cluster.slots(shape, *leavers.emptied(pool)).tolist()
    on: dict[Node, list[tuple[int, VictimUnit, PlacedTask]]] = {}
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
    for need in found:
        yield need.node, list({unit.tasks: unit for _, unit, _ in on[need.node]}.values())


def _need(
    cluster: NodeArrays, shape: Shape, place: Node, here: list[tuple[int, VictimUnit, PlacedTask]]
) -> _Need | None:
    """The need of one node; None: all units there would not free enough in sum."""
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
