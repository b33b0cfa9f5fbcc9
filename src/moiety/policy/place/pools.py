"""The nodes of a snapshot, pool by pool: the room on them, and the reason if there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from moiety.model.errors import InvalidValue
from moiety.policy.model.decisions import PlacementRefusal, Reason
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.arrays import Mask, NodeArrays, Seat
from moiety.policy.place.placement_refusals import refuse
from moiety.policy.place.placer import Placer
from moiety.policy.place.workload_mix import WorkloadMix

Masks = Mapping[str, Mask]
"""A mask for each pool."""


def both(one: Masks | None, other: Masks | None) -> Masks | None:
    """The nodes and GPUs that both masks leave; None: all."""
    if one is None or other is None:
        return one if other is None else other
    return {pool: mask.both(other[pool]) for pool, mask in one.items()}


class Place(NamedTuple):
    """A seat in a pool."""

    pool: str
    seat: Seat


class Pools:
    """A placer for each pool, with everything that runs in its place.

    Changed by `take` and `give_back`, so that a plan can be tried and undone. Raises InvalidValue
    for a node of an unknown pool and for a task that runs on an unknown node; InternalError if more
    runs somewhere than there is room for.
    """

    def __init__(self, snapshot: Snapshot, known: WorkloadMix) -> None:
        self.pools = {pool.name: pool for pool in snapshot.pools}
        for node in snapshot.nodes:
            if node.pool not in self.pools:
                raise InvalidValue(f"node {node.name} is of pool {node.pool}, which is not there")
        clusters = {
            name: NodeArrays([node for node in snapshot.nodes if node.pool == name])
            for name in self.pools
        }
        self._at = {
            node.name: (name, at)
            for name, cluster in clusters.items()
            for at, node in enumerate(cluster.nodes)
        }
        self.places = [self.place_of(running) for running in snapshot.running]
        """The places of running tasks, in the snapshot's order."""
        taken: dict[str, list[tuple[Shape, Seat]]] = {}
        for running, place in zip(snapshot.running, self.places, strict=True):
            taken.setdefault(place.pool, []).append((running.shape, place.seat))
        for name, found in taken.items():
            clusters[name].take_all(found)
        self.placers = {
            name: Placer(clusters[name], pool.placing, pool.choosing, known, seed=snapshot.seed)
            for name, pool in self.pools.items()
        }

    def place_of(self, running: Running) -> Place:
        """The place of what runs. Raises InvalidValue for a node that is not there."""
        node, gpus, milli = running.spot
        found = self._at.get(node)
        if found is None:
            raise InvalidValue(f"{running.task} runs on {node}, which is not there")
        return Place(found[0], Seat(found[1], gpus, milli))

    def open_to(self, workload: Workload) -> Iterator[str]:
        """The pools that it may run in, in the snapshot's order."""
        return (name for name in self.pools if not workload.pools or name in workload.pools)

    def find(self, shape: Shape, workload: Workload, masks: Masks | None = None) -> Place | None:
        """Where a task of this workload should run: in the first of its pools that has room.

        `masks` restricts it.
        """
        for pool in self.open_to(workload):
            seat = self.placers[pool].find(shape, None if masks is None else masks[pool])
            if seat is not None:
                return Place(pool, seat)
        return None

    def larger_gpus(self, place: Place) -> Masks:
        """The nodes whose GPUs have more memory than those of a place."""
        least = self.placers[place.pool].cluster.nodes[place.seat.node].gpu_memory_mib
        return {
            pool: Mask(np.array([n.gpu_memory_mib > least for n in placer.cluster.nodes], np.bool_))
            for pool, placer in self.placers.items()
        }

    def is_free(self, shape: Shape, place: Place) -> bool:
        """Whether exactly that place could be taken by a task that ran there before.

        On a GPU that is not healthy nothing begins, so what ran there has its room.
        """
        cluster, seat = self.placers[place.pool].cluster, place.seat
        node = seat.node
        healthy = cluster.healthy(seat)
        if cluster.free_cpu[node] < shape.cpu_milli or cluster.free_memory[node] < shape.memory_mib:
            return False
        if cluster.counts_memory:
            enough = cluster.enough(shape, slice(node, node + 1))[0]
            return all(bool(enough[gpu]) for gpu in healthy)
        return all(cluster.left[node, gpu] >= seat.gpu_milli for gpu in healthy)

    def take(self, shape: Shape, place: Place) -> None:
        """Begin a task in a place."""
        self.placers[place.pool].take(shape, place.seat)

    def give_back(self, shape: Shape, place: Place) -> None:
        """End a task; exactly undoes `take`."""
        self.placers[place.pool].give_back(shape, place.seat)

    def spot(self, place: Place) -> Spot:
        """The place by its names."""
        node = self.placers[place.pool].cluster.nodes[place.seat.node]
        return Spot(node.name, place.seat.gpus, place.seat.gpu_milli)

    def refuse(
        self, shape: Shape, task: Task, workload: Workload, masks: Masks | None = None
    ) -> PlacementRefusal:
        """Why no pool takes a task: the refusal of a pool in which it could run later, if any."""
        refusals = [
            refuse(self.placers[pool].cluster, shape, task, None if masks is None else masks[pool])
            for pool in self.open_to(workload)
        ]
        if not refusals:
            wanted = " or ".join(sorted(workload.pools))
            return PlacementRefusal(
                task, Reason.NO_NODES, f"there is no pool {wanted}", is_final=True
            )
        return min(refusals, key=lambda refusal: refusal.is_final)
