"""One cycle: a snapshot in, decisions out.

So far a cycle fills what is free: pending workloads get places in the order of their priority and
age, each gang whole or not at all, and what gets none is told why. Nobody is made to yield.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moiety.model.errors import InvalidValue
from moiety.policy.arrays import Cluster, Seat
from moiety.policy.cluster import Pool
from moiety.policy.decisions import Decision, Placement, Reason, Refusal
from moiety.policy.placer import Placer
from moiety.policy.refusals import refuse
from moiety.policy.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.typical import Typical, typical
from moiety.policy.workloads import Shape, Workload


@dataclass(frozen=True, slots=True)
class Place:
    """A seat in a pool."""

    pool: str
    seat: Seat


class Pools:
    """The nodes of a snapshot: a placer for each pool, with everything that runs in its place.

    Changed by `take` and `give_back`, so that a plan can be tried and undone. Raises InvalidValue
    for a node of an unknown pool and for a task that runs on an unknown node; InternalError if more
    runs somewhere than there is room for.
    """

    def __init__(self, snapshot: Snapshot, known: Typical) -> None:
        self.pools = {pool.name: pool for pool in snapshot.pools}
        for node in snapshot.nodes:
            if node.pool not in self.pools:
                raise InvalidValue(f"node {node.name} is of pool {node.pool}, which is not there")
        self.placers = {pool.name: self._placer(snapshot, pool, known) for pool in snapshot.pools}
        self._pool_of = {node.name: node.pool for node in snapshot.nodes}
        for running in snapshot.running:
            self.take(running.shape, self.place_of(running))

    @staticmethod
    def _placer(snapshot: Snapshot, pool: Pool, known: Typical) -> Placer:
        cluster = Cluster([node for node in snapshot.nodes if node.pool == pool.name])
        return Placer(cluster, pool.placing, pool.choosing, known, seed=snapshot.seed)

    def place_of(self, running: Running) -> Place:
        """Where it runs; raises InvalidValue for an unknown node."""
        spot = running.spot
        pool = self._pool_of.get(spot.node)
        if pool is None:
            raise InvalidValue(f"{running.task} runs on {spot.node}, which is not there")
        node = self.placers[pool].cluster.index[spot.node]
        return Place(pool, Seat(node, spot.gpus, spot.gpu_milli))

    def open_to(self, workload: Workload) -> Iterator[str]:
        """The pools that it may run in, in the snapshot's order."""
        return (name for name in self.pools if not workload.pools or name in workload.pools)

    def find(self, shape: Shape, workload: Workload) -> Place | None:
        """Where a task of this workload should run: in the first of its pools that has room."""
        for pool in self.open_to(workload):
            seat = self.placers[pool].find(shape)
            if seat is not None:
                return Place(pool, seat)
        return None

    def is_free(self, shape: Shape, place: Place) -> bool:
        """Whether exactly that place could be taken."""
        cluster, seat = self.placers[place.pool].cluster, place.seat
        node = seat.node
        if cluster.free_cpu[node] < shape.cpu_milli or cluster.free_memory[node] < shape.memory_mib:
            return False
        return all(cluster.left[node, gpu] >= seat.gpu_milli for gpu in seat.gpus)

    def take(self, shape: Shape, place: Place) -> None:
        """A task begins there."""
        self.placers[place.pool].take(shape, place.seat)

    def give_back(self, shape: Shape, place: Place) -> None:
        """It ends; exactly undoes `take`."""
        self.placers[place.pool].give_back(shape, place.seat)

    def spot(self, place: Place) -> Spot:
        """The place by its names."""
        node = self.placers[place.pool].cluster.nodes[place.seat.node]
        return Spot(node.name, place.seat.gpus, place.seat.gpu_milli)

    def refuse(self, shape: Shape, task: Task, workload: Workload) -> Refusal:
        """Why no pool takes it: that of a pool in which it could run some day, if there is one."""
        refusals = [
            refuse(self.placers[pool].cluster, shape, task) for pool in self.open_to(workload)
        ]
        if not refusals:
            wanted = " or ".join(sorted(workload.pools))
            return Refusal(task, Reason.NO_NODES, f"there is no pool {wanted}", is_final=True)
        return min(refusals, key=lambda refusal: refusal.is_final)


def decide(snapshot: Snapshot, known: Typical | None = None) -> list[Decision]:
    """What should happen now.

    `known` is what comes to these pools; None: what is in the snapshot. Raises as Pools does.
    """
    pools = Pools(snapshot, known or typical(_shapes(snapshot)))
    running = {each.task for each in snapshot.running}
    decisions: list[Decision] = []
    for workload in sorted(snapshot.workloads, key=_order):
        decisions += place(workload, pools, running)
    return decisions


def place(workload: Workload, pools: Pools, running: set[Task]) -> list[Decision]:
    """Places for the tasks of a workload that do not run: for so many that it can start, or none.

    Tasks beyond the fewest that it needs get places as far as there are any.
    """
    taken: list[tuple[Shape, Place]] = []
    placements: list[Decision] = []
    refusal: Refusal | None = None
    for subgroup in workload.subgroups:
        tasks = [Task(workload.name, subgroup.name, index) for index in range(subgroup.tasks)]
        pending = [task for task in tasks if task not in running]
        needed = subgroup.tasks_min - (len(tasks) - len(pending))
        for count, task in enumerate(pending):
            found = pools.find(subgroup.shape, workload)
            if found is None:
                refusal = pools.refuse(subgroup.shape, task, workload)
                if count < needed:
                    for shape, back in reversed(taken):
                        pools.give_back(shape, back)
                    return [refusal]
                break
            pools.take(subgroup.shape, found)
            taken.append((subgroup.shape, found))
            placements.append(Placement(task, pools.spot(found)))
    return [*placements, refusal] if refusal else placements


def _order(workload: Workload) -> tuple[int, float, str]:
    return -workload.priority, workload.submitted_s, workload.name


def _shapes(snapshot: Snapshot) -> Iterator[Shape]:
    for workload in snapshot.workloads:
        for subgroup in workload.subgroups:
            yield from [subgroup.shape] * subgroup.tasks
