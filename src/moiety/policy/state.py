"""A cluster as it would be: what runs where, changed step by step, and back again.

Plans are tried here. Everything that is done is written down, so that a plan that does not work out
is undone without a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from moiety.model.errors import InvalidValue
from moiety.policy.cluster import WHOLE_GPU
from moiety.policy.engine import Place, Pools
from moiety.policy.queues import Amounts, Queue
from moiety.policy.snapshot import Running, Snapshot, Task
from moiety.policy.standing import Standing, Vector
from moiety.policy.typical import Typical
from moiety.policy.workloads import Shape, Subgroup, Workload


@dataclass(frozen=True, slots=True)
class Seated:
    """A task in its place."""

    shape: Shape
    place: Place
    amounts: Vector
    """what it takes of its queue"""


class State:
    """What runs, and how every queue stands with it.

    Raises InvalidValue if the snapshot does not make sense: an unknown queue or workload, a task
    that runs twice, a loop of queues.
    """

    def __init__(self, snapshot: Snapshot, known: Typical) -> None:
        self.snapshot = snapshot
        self.workloads = {workload.name: workload for workload in snapshot.workloads}
        queues = snapshot.queues or _one_for_each(snapshot.workloads)
        self.standing = Standing(queues, snapshot.now_s, snapshot.monday_s)
        for workload in snapshot.workloads:
            self.standing.check(workload.queue, workload.name)
        self.began: dict[Task, Running] = {}
        for running in snapshot.running:
            self._is_known(running.task)
            if running.task in self.began:
                raise InvalidValue(f"{running.task} runs twice")
            self.began[running.task] = running
        self.pools = Pools(snapshot, known)
        self.capacity = self._capacity()
        self._largest_gpu = max((node.gpu_memory_mib for node in snapshot.nodes), default=0)
        self.seated: dict[Task, Seated] = {}
        self.running: Counter[tuple[str, str]] = Counter()
        """how many tasks of a workload's subgroup run"""
        self._log: list[tuple[Task, Seated, int]] = []
        for running in snapshot.running:
            place = self.pools.place_of(running)
            seated = Seated(running.shape, place, self._amounts(running.shape, place))
            self._account(running.task, seated, 1)
        self.first = dict(self.seated)

    def _is_known(self, task: Task) -> None:
        workload = self.workloads.get(task.workload)
        if workload is None:
            raise InvalidValue(f"{task} runs, but there is no workload {task.workload}")
        for subgroup in workload.subgroups:
            if subgroup.name == task.subgroup and task.index < subgroup.tasks:
                return
        raise InvalidValue(f"{task} runs, but {task.workload} has no such task")

    def _capacity(self) -> Vector:
        gpu = gpu_memory = 0
        for node in self.snapshot.nodes:
            healthy = sum(each.is_healthy for each in node.gpus)
            gpu += healthy * WHOLE_GPU
            gpu_memory += healthy * node.gpu_memory_mib
        cpu = sum(node.cpu_milli for node in self.snapshot.nodes)
        return gpu, gpu_memory, cpu, sum(node.memory_mib for node in self.snapshot.nodes)

    def _amounts(self, shape: Shape, place: Place) -> Vector:
        cluster = self.pools.placers[place.pool].cluster
        memory = int(cluster.gpu_memory[place.seat.node])
        return self._taken(shape, place.seat.gpu_milli, memory)

    def _taken(self, shape: Shape, milli: int, gpu_memory_mib: int) -> Vector:
        memory = max(shape.gpu_memory_mib, milli * gpu_memory_mib // WHOLE_GPU)
        return shape.gpus * milli, shape.gpus * memory, shape.cpu_milli, shape.memory_mib

    def amounts_of(self, shapes: Iterable[Shape]) -> Vector:
        """What tasks of these shapes would take, as far as that is known before they have places.

        A part of a GPU that is asked for by memory counts as what it is of the largest GPU.
        """
        total = [0, 0, 0, 0]
        for shape in shapes:
            milli = min(shape.milli_on(self._largest_gpu), WHOLE_GPU) if shape.gpus else 0
            for at, amount in enumerate(self._taken(shape, milli, self._largest_gpu)):
                total[at] += amount
        return total

    def subgroup(self, task: Task) -> Subgroup:
        """The one that it belongs to."""
        workload = self.workloads[task.workload]
        return next(each for each in workload.subgroups if each.name == task.subgroup)

    def start(self, task: Task, shape: Shape, place: Place) -> None:
        """It begins there; there is room."""
        self.pools.take(shape, place)
        seated = Seated(shape, place, self._amounts(shape, place))
        self._account(task, seated, 1)
        self._log.append((task, seated, 1))

    def stop(self, task: Task) -> Seated:
        """It ends."""
        seated = self.seated[task]
        self.pools.give_back(seated.shape, seated.place)
        self._account(task, seated, -1)
        self._log.append((task, seated, -1))
        return seated

    def _account(self, task: Task, seated: Seated, sign: int) -> None:
        workload = self.workloads[task.workload]
        self.standing.add(
            workload.queue, seated.amounts, sign, guaranteed=not workload.is_preemptible
        )
        self.running[task.workload, task.subgroup] += sign
        if sign > 0:
            self.seated[task] = seated
        else:
            del self.seated[task]

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._log)

    def back(self, mark: int) -> None:
        """Undo everything since."""
        while len(self._log) > mark:
            task, seated, sign = self._log.pop()
            if sign > 0:
                self.pools.give_back(seated.shape, seated.place)
            else:
                self.pools.take(seated.shape, seated.place)
            self._account(task, seated, -sign)

    def may_start(self, workload: Workload, amounts: Vector) -> bool:
        """Whether no limit is in the way, and no quota of what must not be taken away."""
        if self.standing.over_limit(workload.queue, amounts):
            return False
        return workload.is_preemptible or not self.standing.over_quota(workload.queue, amounts)

    def try_start(self, task: Task, shape: Shape, workload: Workload) -> bool:
        """Let it begin where the pool's rule wants it, if there is room and its queue may."""
        place = self.pools.find(shape, workload)
        if place is None or not self.may_start(workload, self._amounts(shape, place)):
            return False
        self.start(task, shape, place)
        return True

    def try_return(self, task: Task, seated: Seated) -> bool:
        """Let it go back to where it was, if that is still free."""
        if not self.pools.is_free(seated.shape, seated.place):
            return False
        if self.standing.over_limit(self.workloads[task.workload].queue, seated.amounts):
            return False
        self.start(task, seated.shape, seated.place)
        return True


def _one_for_each(workloads: Iterable[Workload]) -> list[Queue]:
    """Without queues, everyone may have everything."""
    names = sorted({workload.queue for workload in workloads} | {"default"})
    return [Queue(name, quota=Amounts()) for name in names]
