"""Victims: the tasks that may be made to yield, in units, and their order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Workload
from moiety.policy.place.arrays import Ints
from moiety.policy.state.cluster_state import ClusterState

OPPORTUNISTS: Final = "\0"
"""The name that stands for the queue of opportunistic workloads, which count for no queue."""


class ReversedName(str):
    """A name that sorts in the opposite order: the first served among equals yields last."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self, other)


class VictimUnit(NamedTuple):
    """Tasks that end together: one extra task of a workload, or all tasks that it needs."""

    order: tuple[int, bool, float, float, ReversedName, int]
    """Sort key: low priority first, then extra tasks, then the youngest."""
    workload: Workload
    tasks: tuple[Task, ...]
    is_extra: bool

    @property
    def since_s(self) -> float:
        """When the youngest of its tasks began."""
        return -self.order[2]


class Victims:
    """All units that may be ended, by queue, in the order in which they yield.

    Guaranteed work is not among them. The units of a queue are found when they are first asked for,
    and kept: `changed` names workloads whose units are not right any more.
    """

    def __init__(self, state: ClusterState, min_run_s: float = 0.0) -> None:
        self._state = state
        self._min_run_s = min_run_s
        self._names: dict[str, set[str]] = {}
        """Names of workloads by queue."""
        for name, tasks in state.tasks_of.items():
            workload = state.workloads[name]
            if tasks and workload.is_preemptible:
                self._names.setdefault(_queue(workload), set()).add(name)
        self._units: dict[str, list[VictimUnit]] = {}
        self._found: dict[str, list[VictimUnit]] = {}
        """The units of each workload in `_units`."""
        self._emptied: dict[str, tuple[Ints, Ints, Ints]] = {}

    @property
    def queues(self) -> Iterable[str]:
        """The queues with units that may be ended."""
        return [queue for queue in self._names if queue != OPPORTUNISTS]

    def of(self, queue: str) -> Sequence[VictimUnit]:
        """All units of a queue."""
        found = self._units.get(queue)
        if found is None:
            found = [unit for name in self._names.get(queue, ()) for unit in self._of(name)]
            found.sort(key=itemgetter(0))
            self._units[queue] = found
        return found

    def _of(self, name: str) -> list[VictimUnit]:
        found = self._found[name] = self._find(name)
        return found

    def _find(self, name: str) -> list[VictimUnit]:
        state = self._state
        workload, tasks = state.workloads[name], state.tasks_of[name]
        if len(tasks) == 1:
            since = self._since(tasks[0])
        else:
            since = max([self._since(task) for task in tasks])
        if state.snapshot.now_s - since < self._min_run_s:
            return []
        rank = workload.priority, -workload.submitted_s, ReversedName(name)
        if len(tasks) == 1 and len(workload.subgroups) == 1 and workload.subgroups[0].tasks_min:
            return [_unit(rank, workload, tuple(tasks), since, is_extra=False)]
        core: list[Task] = []
        units = []
        for subgroup in workload.subgroups:
            own = sorted(task for task in tasks if task.subgroup == subgroup.name)
            core += own[: subgroup.tasks_min]
            units += [
                _unit(rank, workload, (task,), self._since(task), is_extra=True)
                for task in own[subgroup.tasks_min :]
            ]
        if core:
            since = max(self._since(task) for task in core)
            units.append(_unit(rank, workload, tuple(core), since, is_extra=False))
        return units

    def _since(self, task: Task) -> float:
        """When a task began; now, if this cycle started it."""
        began = self._state.began.get(task)
        return began.since_s if began else self._state.snapshot.now_s

    def changed(self, names: Iterable[str]) -> None:
        """Note that these workloads began or lost tasks."""
        state = self._state
        by_queue: dict[str, set[str]] = {}
        for name in names:
            workload = state.workloads[name]
            if workload.is_preemptible:
                by_queue.setdefault(_queue(workload), set()).add(name)
        for queue, own in by_queue.items():
            here = {name for name in own if state.tasks_of.get(name)}
            self._names[queue] = self._names.get(queue, set()) - own | here
            if queue in self._units:
                self._units[queue] = self._renewed(self._units[queue], own, here)

    def _renewed(
        self, units: Sequence[VictimUnit], own: Iterable[str], here: Iterable[str]
    ) -> list[VictimUnit]:
        """The units of a queue, with those of `own` taken out and those of `here` put in."""
        found = list(units)
        for name in own:
            for unit in self._found.pop(name, ()):
                del found[bisect_left(found, unit.order, key=itemgetter(0))]
        for name in here:
            for unit in self._of(name):
                insort(found, unit, key=itemgetter(0))
        return found

    def emptied(self, pool: str) -> tuple[Ints, Ints, Ints]:
        """What would be free at most if all units ended: of GPUs [N, G], CPUs and memory [N].

        It is found once: tasks that begin later are not taken off, so it is never too little.
        """
        if not self._emptied:
            self._empty_all()
        return self._emptied[pool]

    def _empty_all(self) -> None:
        state = self._state
        parts: dict[str, list[tuple[int, int, int]]] = {name: [] for name in state.pools.placers}
        nodes: dict[str, list[tuple[int, int, int]]] = {name: [] for name in state.pools.placers}
        for names in self._names.values():
            for name in names:
                for task in state.tasks_of[name]:
                    shape, (pool, (node, gpus, milli)), _ = state.seated[task]
                    parts[pool] += [(node, gpu, milli) for gpu in gpus]
                    nodes[pool].append((node, shape.cpu_milli, shape.memory_mib))
        for pool, placer in state.pools.placers.items():
            cluster = placer.cluster
            left = cluster.left.copy()
            cpu, memory = cluster.free_cpu.copy(), cluster.free_memory.copy()
            ended = np.array(nodes[pool], np.int64).reshape(-1, 3)
            np.add.at(cpu, ended[:, 0], ended[:, 1])
            np.add.at(memory, ended[:, 0], ended[:, 2])
            freed = np.array(parts[pool], np.int64).reshape(-1, 3)
            np.add.at(left, (freed[:, 0], freed[:, 1]), freed[:, 2])
            self._emptied[pool] = left, cpu, memory


def _queue(workload: Workload) -> str:
    return OPPORTUNISTS if workload.is_opportunistic else workload.queue


def _unit(
    rank: tuple[int, float, ReversedName],
    workload: Workload,
    tasks: tuple[Task, ...],
    since_s: float,
    *,
    is_extra: bool,
) -> VictimUnit:
    priority, age, name = rank
    order = (priority, not is_extra, -since_s, age, name, -tasks[0].index)
    return VictimUnit(order, workload, tasks, is_extra)
