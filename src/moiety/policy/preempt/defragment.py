"""Moves a few tasks so that free room is of more use to the usual work."""

from __future__ import annotations

from typing import Final

import numpy as np

from moiety.policy.place.arrays import Mask, NodeArrays
from moiety.policy.place.pools import Masks, both
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.preempt.preemption_trial import EndedUnit
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_start import stay

GAIN_MILLI: Final = 250
"""Thousandths of GPUs that have to become useful for each task that moves. So no task moves to and
fro, because each move leaves less useless room."""
NODES_TRIED_MAX: Final = 32


def defragment(
    state: ClusterState, leavers: Victims, known: WorkloadMix, moves_max: int
) -> list[EndedUnit]:
    """Empty nodes on which little runs, if that is worth the moves. No task ends."""
    done: list[EndedUnit] = []
    for pool in state.pools.placers:
        while moved := _empty_one(state, leavers, known, pool, moves_max - len(done)):
            done += moved
    return done


def _empty_one(
    state: ClusterState, leavers: Victims, known: WorkloadMix, pool: str, moves_max: int
) -> list[EndedUnit] | None:
    cluster = state.pools.placers[pool].cluster
    before = _fragments(cluster, known)
    for node, units in _emptiest(state, leavers, pool):
        if len(units) > moves_max:
            continue
        mark = state.mark()
        moved = _move(state, pool, node, units)
        if moved and before - _fragments(cluster, known) >= GAIN_MILLI * len(units):
            return moved
        state.back(mark)
    return None


def _fragments(cluster: NodeArrays, known: WorkloadMix) -> int:
    """Whole thousandths: the last bits of a sum depend on the order of the nodes."""
    return round(cluster.fragments_of(known.weighted))


def _emptiest(
    state: ClusterState, leavers: Victims, pool: str
) -> list[tuple[int, list[VictimUnit]]]:
    """Nodes whose GPUs are in use only by movable tasks, the least used first."""
    on: dict[int, list[VictimUnit]] = {}
    used: dict[int, int] = {}
    for queue in leavers.queues:
        for unit in leavers.of(queue):
            for task in unit.tasks:
                seated = state.seated.get(task)
                if seated is None or seated.place.pool != pool or not seated.shape.gpus:
                    continue
                node, gpus, milli = seated.place.seat
                on.setdefault(node, []).append(
                    VictimUnit(unit.order, unit.workload, (task,), unit.is_extra)
                )
                used[node] = used.get(node, 0) + len(gpus) * milli
    for units in on.values():
        units.sort(key=lambda unit: (unit.order, unit.tasks))
    cluster = state.pools.placers[pool].cluster
    in_use = cluster.capacity.sum(axis=1) - cluster.left_total
    found = [(used[node], node) for node in on if in_use[node] == used[node]]
    found.sort(key=lambda each: (each[0], cluster.nodes[each[1]].name))
    return [(node, on[node]) for _, node in found[:NODES_TRIED_MAX]]


def _move(
    state: ClusterState, pool: str, node: int, units: list[VictimUnit]
) -> list[EndedUnit] | None:
    elsewhere = _but(state, pool, node)
    moved: list[EndedUnit] = []
    for unit in units:
        [task] = unit.tasks
        seated = state.seated[task]
        masks = both(elsewhere, stay(state, task, seated.place))
        state.stop(task)
        moved.append(EndedUnit(unit, (seated,)))
        if not state.try_start(task, seated.shape, unit.workload, masks):
            return None
    return moved


def _but(state: ClusterState, pool: str, node: int) -> Masks:
    masks = {
        name: Mask(np.ones(len(placer.cluster), np.bool_))
        for name, placer in state.pools.placers.items()
    }
    masks[pool].nodes[node] = False
    return masks
