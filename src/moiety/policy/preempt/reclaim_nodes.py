"""The nodes on which room could be made for a piece, the least harm first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moiety.policy.place.pools import Masks
from moiety.policy.preempt.node_needs import Need, Node, NodeNeeds, OnNode, need_of
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.state.cluster_state import ClusterState
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
        (pool, shape): leavers.slots(pool, shape) for pool in pools for shape, _ in piece.shapes
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


def by_need(
    state: ClusterState, piece: GangPart, leavers: Victims
) -> Iterator[tuple[Node, list[VictimUnit]]]:
    """As `by_node`, of all opportunistic units and all units of other queues."""
    shape = piece.tasks[0][1]
    slots = {pool: leavers.slots(pool, shape) for pool in state.pools.open_to(piece.workload)}

    def could(node: Node) -> bool:
        found = slots.get(node[0])
        return found is not None and bool(found[node[1]])

    return NodeNeeds.current(state, leavers).of(shape, piece.workload.queue, could)


def by_node(
    state: ClusterState, piece: GangPart, units: list[VictimUnit], leavers: Victims
) -> Iterator[tuple[Node, list[VictimUnit]]]:
    """The nodes that could take a task of the largest shape if all units ended, with their units.

    Nodes on which the least of GPUs has to be freed come first, then nodes whose units yield first.
    """
    shape = piece.tasks[0][1]
    could: dict[str, list[int]] = {}
    for pool in state.pools.open_to(piece.workload):
        could[pool] = leavers.slots(pool, shape).tolist()
    on: dict[Node, list[OnNode]] = {}
    for rank, unit in enumerate(units):
        for position, task in enumerate(unit.tasks):
            seated = state.seated.get(task)
            if seated is None:
                continue
            node = seated.place.pool, seated.place.seat.node
            if node[0] in could and could[node[0]][node[1]]:
                here = OnNode((rank,), position, unit.workload.queue, unit, seated)
                on.setdefault(node, []).append(here)
    found: list[Need] = []
    for node, tasks in on.items():
        need = need_of(state.pools.placers[node[0]].cluster, shape, node, tasks)
        if need:
            found.append(need)
    found.sort()
    for need in found:
        yield need.node, list({each.unit.tasks: each.unit for each in on[need.node]}.values())
