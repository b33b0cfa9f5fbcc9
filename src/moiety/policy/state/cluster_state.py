"""The state of a cluster in a plan: which task runs where, changed step by step, and back again.

Plans are tried here. Each change is logged, so that a plan that does not work out is undone without
a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import NamedTuple

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Task
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Affinity, Shape, Workload
from moiety.policy.place.affinity import AffinityIndex
from moiety.policy.place.pools import Masks, Place, Pools, both
from moiety.policy.place.topology import Domains
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.queue.queue_usage import QueueUsage, Vector


class PlacedTask(NamedTuple):
    """A task in its place."""

    shape: Shape
    place: Place
    amounts: Vector
    """The amounts that count for its queue."""


class ClusterState:
    """The tasks that run, and the usage of every queue.

    Raises InvalidValue if the snapshot does not make sense: an unknown queue or workload, a task
    that runs twice, a loop of queues.
    """

    def __init__(
        self, snapshot: Snapshot, known: WorkloadMix, budget: WorkBudget | None = None
    ) -> None:
        self.snapshot = snapshot
        self.budget = budget or WorkBudget()
        work = snapshot.workloads
        self.workloads = {workload.name: workload for workload in work}
        queues = snapshot.queues or _one_for_each(snapshot.workloads)
        self.standing = QueueUsage(queues, snapshot.now_s, snapshot.monday_s)
        self.standing.credit = snapshot.credit
        first: dict[str, str] = {}
        for workload in work:
            first.setdefault(workload.queue, workload.name)
        for queue, name in first.items():
            self.standing.check(queue, name)
        self.sizes = {
            (workload.name, subgroup.name): subgroup.tasks
            for workload in work
            for subgroup in workload.subgroups
        }
        """The tasks that each subgroup of a workload wants."""
        self.began: dict[Task, Running] = {}
        for running in snapshot.running:
            self.check(running.task)
            self.began[running.task] = running
        self.pools = Pools(snapshot, known)
        self.domains = Domains(self.pools)
        self.companies = AffinityIndex(self.pools) if AffinityIndex.are_asked_for(work) else None
        self.capacity = self._capacity()
        self._largest_gpu = max((node.gpu_memory_mib for node in snapshot.nodes), default=0)
        self._sums: dict[tuple[tuple[Shape, int], ...], Vector] = {}
        self._taken: dict[tuple[Shape, int, int], Vector] = {}
        self.seated: dict[Task, PlacedTask] = {}
        self.tasks_of: dict[str, list[Task]] = {}
        """The running tasks of each workload."""
        self.running: Counter[tuple[str, str]] = Counter()
        """How many tasks of a workload's subgroup run."""
        self.priorities = Counter([workload.priority for workload in work])
        """How many workloads have each priority."""
        self.opportunists = sum([workload.is_opportunistic for workload in work])
        """How many workloads are opportunistic."""
        self.bounded = {workload.name for workload in work if workload.max_run_s is not None}
        """Workloads that may run for only so long."""
        self._log: list[tuple[Task, PlacedTask, int]] = []
        self._seat_all()
        has = self.running.get
        self.unmet = {key[0] for key, size in self.sizes.items() if has(key, 0) < size}
        """Workloads of which not all tasks run."""
        self.partial = {name for name in self.tasks_of if name in self.unmet}
        """Those of them of which some tasks run."""
        self.left_to: Callable[[Workload], Masks | None] | None = None
        """What is not kept for others."""
        self.worth: Mapping[str, float] = {}
        """What a GPU-second of each workload is worth; empty: not known of any."""
        self.worth_ends = True
        """Whether work may lose what it has done to work of its own queue that is worth more."""
        self.yielded: Container[str] = ()
        """Workloads that have yielded at this moment, before this decision."""
        self.kept: dict[str, object] = {}
        """By workload: what others have found of it, until it begins or loses tasks."""
        self.lines: object = None
        """What `queue_order` has found of all that waits."""
        self.victims: object = None
        """What `preempt` has found of all that runs."""
        self.turns: dict[str, tuple[tuple[int, int], Vector]] = {}
        """What queues have on credit (`preempt.turns`), and of which usage."""
        self._watched: list[set[str]] = []
        self._numbers: dict[Hashable, int] = {}

    def count(self, workload: Workload, sign: int) -> None:
        """Count a workload that comes (sign 1) or goes (-1)."""
        self.priorities[workload.priority] += sign
        if not self.priorities[workload.priority]:
            del self.priorities[workload.priority]
        self.opportunists += sign * workload.is_opportunistic
        if workload.max_run_s is not None:
            (self.bounded.add if sign > 0 else self.bounded.discard)(workload.name)

    def watch(self) -> set[str]:
        """A new set; each workload that begins or loses tasks, comes or goes is added to it."""
        found: set[str] = set()
        self._watched.append(found)
        return found

    def unwatch(self, changed: set[str]) -> None:
        """Add nothing more to a set that `watch` gave."""
        self._watched = [each for each in self._watched if each is not changed]

    def touch(self, name: str) -> None:
        """Note that a workload has changed."""
        self.kept.pop(name, None)
        for each in self._watched:
            each.add(name)

    def number(self, what: Hashable) -> int:
        """The same number for equal things, which are quicker to compare by it."""
        return self._numbers.setdefault(what, len(self._numbers))

    def check(self, task: Task) -> None:
        """Raises InvalidValue for a task that cannot run."""
        if task.workload not in self.workloads:
            raise InvalidValue(f"{task} runs, but there is no workload {task.workload}")
        if task.index >= self.sizes.get((task.workload, task.subgroup), 0):
            raise InvalidValue(f"{task} runs, but {task.workload} has no such task")
        if task in self.began:
            raise InvalidValue(f"{task} runs twice")

    def _seat_all(self) -> None:
        """Everything that runs has its place: in sums, because there can be much of it."""
        counts: Counter[tuple[str, bool, Vector]] = Counter()
        for running, place in zip(self.snapshot.running, self.pools.places, strict=True):
            task = running.task
            name = task[0]
            amounts = self._amounts(running.shape, place)
            self.seated[task] = PlacedTask(running.shape, place, amounts)
            own = self.tasks_of.get(name)
            if own is None:
                self.tasks_of[name] = [task]
            else:
                own.append(task)
            self.running[name, task[1]] += 1
            workload = self.workloads[name]
            if self.companies:
                self.companies.change(self._company(task), place, 1)
            if not workload.is_opportunistic:
                counts[workload.queue, workload.is_preemptible, amounts] += 1
        for (queue, is_preemptible, amounts), count in counts.items():
            total = [count * amount for amount in amounts]
            self.standing.add(queue, total, 1, guaranteed=not is_preemptible)

    def _company(self, task: Task) -> Affinity:
        workload = self.workloads[task.workload]
        return next(each.company for each in workload.subgroups if each.name == task.subgroup)

    def _lacks(self, name: str, subgroup: str) -> bool:
        return self.running[name, subgroup] < self.sizes[name, subgroup]

    def _capacity(self) -> Vector:
        gpu = gpu_memory = 0
        for node in self.snapshot.nodes:
            healthy = sum(each.is_healthy for each in node.gpus)
            gpu += healthy * WHOLE_GPU
            gpu_memory += healthy * node.gpu_memory_mib
        cpu = sum(node.cpu_milli for node in self.snapshot.nodes)
        return gpu, gpu_memory, cpu, sum(node.memory_mib for node in self.snapshot.nodes)

    def _amounts(self, shape: Shape, place: Place) -> Vector:
        pool, (node, _, milli) = place
        memory = self.pools.placers[pool].cluster.nodes[node].gpu_memory_mib
        return self._taken.get((shape, milli, memory)) or self._of(shape, milli, memory)

    def _of(self, shape: Shape, milli: int, gpu_memory_mib: int) -> Vector:
        """What a task of a shape takes that has so much of each GPU of so much memory."""
        key = shape, milli, gpu_memory_mib
        found = self._taken.get(key)
        if found is None:
            memory = max(shape.gpu_memory_mib, milli * gpu_memory_mib // WHOLE_GPU)
            if shape.is_apart:
                memory = shape.gpu_memory_mib
            gpus = shape.gpus
            found = gpus * milli, gpus * memory, shape.cpu_milli, shape.memory_mib
            self._taken[key] = found
        return found

    def amounts_of(self, shapes: Iterable[tuple[Shape, int]]) -> Vector:
        """What a number of tasks of each shape would take, as far as it is known before they run.

        A part of a GPU that is requested by memory counts as its part of the largest GPU.
        """
        key = tuple(shapes)
        kept = self._sums.get(key)
        if kept is not None:
            return kept
        total = [0, 0, 0, 0]
        for shape, count in key:
            milli = min(shape.milli_on(self._largest_gpu), WHOLE_GPU) if shape.gpus else 0
            for at, amount in enumerate(self._of(shape, milli, self._largest_gpu)):
                total[at] += count * amount
        found = self._sums[key] = tuple(total)
        return found

    def start(self, task: Task, shape: Shape, place: Place) -> None:
        """Begin a task in a place, which has room."""
        self.pools.take(shape, place)
        seated = PlacedTask(shape, place, self._amounts(shape, place))
        self._account(task, seated, 1)
        self._log.append((task, seated, 1))

    def stop(self, task: Task) -> PlacedTask:
        """End a task; returns its place."""
        seated = self.seated[task]
        self.pools.give_back(seated.shape, seated.place)
        self._account(task, seated, -1)
        self._log.append((task, seated, -1))
        return seated

    def _account(self, task: Task, seated: PlacedTask, sign: int) -> None:
        name, subgroup, _ = task
        workload = self.workloads[name]
        self.touch(name)
        if self.companies:
            self.companies.change(self._company(task), seated.place, sign)
        if not workload.is_opportunistic:
            self.standing.add(
                workload.queue, seated.amounts, sign, guaranteed=not workload.is_preemptible
            )
        self.running[name, subgroup] += sign
        if sign > 0:
            self.seated[task] = seated
            self.tasks_of.setdefault(name, []).append(task)
            if any(self._lacks(name, each.name) for each in workload.subgroups):
                self.partial.add(name)
            else:
                self.unmet.discard(name)
                self.partial.discard(name)
        else:
            del self.seated[task]
            own = self.tasks_of[name]
            own.remove(task)
            self.unmet.add(name)
            (self.partial.add if own else self.partial.discard)(name)

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._log)

    def back(self, mark: int) -> None:
        """Undo all changes since a mark."""
        while len(self._log) > mark:
            task, seated, sign = self._log.pop()
            if sign > 0:
                self.pools.give_back(seated.shape, seated.place)
            else:
                self.pools.take(seated.shape, seated.place)
            self._account(task, seated, -sign)

    def reset(self, snapshot: Snapshot, budget: WorkBudget) -> None:
        """Begin a plan for a snapshot of what the state is now; nothing before can be undone."""
        self.snapshot, self.budget = snapshot, budget
        self._log.clear()
        self.left_to = None
        if self.worth:
            self.worth = {}
        self.standing.credit = snapshot.credit
        self.standing.at(snapshot.now_s - snapshot.monday_s)

    def changed(self) -> list[tuple[Task, PlacedTask | None]]:
        """The tasks that began, ended or moved, in that order, and the place of each before."""
        before: dict[Task, PlacedTask | None] = {}
        for task, seated, sign in self._log:
            before.setdefault(task, None if sign > 0 else seated)
        return list(before.items())

    def may_start(self, workload: Workload, amounts: Vector) -> bool:
        """Whether no limit is in the way, nor the quota if the work must not be taken away."""
        if workload.is_opportunistic:
            return True
        if self.standing.over_limit(workload.queue, amounts):
            return False
        return workload.is_preemptible or not self.standing.over_quota(workload.queue, amounts)

    def masks(self, task: Task, masks: Masks | None = None) -> Masks | None:
        """Where a task may begin, by the labels on GPUs and by reservations.

        None: anywhere.
        """
        if self.left_to:
            masks = both(masks, self.left_to(self.workloads[task.workload]))
        if not self.companies:
            return masks
        return both(masks, self.companies.masks(self._company(task)))

    def try_start(
        self, task: Task, shape: Shape, workload: Workload, masks: Masks | None = None
    ) -> bool:
        """Begin a task where the pool's rule places it, if it has room and its queue may."""
        allowed = self.masks(task, masks)
        place = self.pools.find(shape, workload, allowed)
        while place is not None and not self.may_start(workload, self._amounts(shape, place)):
            if shape.gpu_milli or not shape.gpu_memory_mib:
                return False
            # the same memory is a smaller part of a larger GPU, which may be within bounds
            allowed = both(allowed, self.pools.larger_gpus(place))
            place = self.pools.find(shape, workload, allowed)
        if place is None:
            return False
        self.start(task, shape, place)
        return True

    def try_return(self, task: Task, seated: PlacedTask) -> bool:
        """Begin a task again in its former place, if that is still free."""
        if not self.pools.is_free(seated.shape, seated.place):
            return False
        if self.companies and not self.companies.allow(self._company(task), seated.place):
            return False
        workload = self.workloads[task.workload]
        if not workload.is_opportunistic and self.standing.over_limit(
            workload.queue, seated.amounts
        ):
            return False
        self.start(task, seated.shape, seated.place)
        return True

    def all_could_return(self) -> bool:
        """Whether any running task could come back to its place for certain, if it ended now."""
        if self.companies or any(one.cluster.counts_memory for one in self.pools.placers.values()):
            return False
        return not self.standing.exceeds_limits()


def _one_for_each(workloads: Iterable[Workload]) -> list[Queue]:
    """Queues without bounds, for a snapshot that has none."""
    names = sorted({workload.queue for workload in workloads} | {"default"})
    return [Queue(name, quota=Amounts()) for name in names]
