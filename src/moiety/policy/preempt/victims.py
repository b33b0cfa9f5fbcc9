"""Victims: the tasks that may be made to yield, in units, and their order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.arrays import Ints
from moiety.policy.preempt.freed_room import FreedRoom, Row
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

    Guaranteed work is not among them, nor is work on GPUs that are drained or lost: nothing could
    begin there. The units of a queue are found when they are first asked for,
    and kept: `changed` names workloads whose units are not right any more. They are kept with the
    state, from one decision to the next.
    """

    def __init__(self, state: ClusterState, min_run_s: float = 0.0) -> None:
        self._state = state
        self._min_run_s = min_run_s
        self._touched = state.watch()
        self._names: dict[str, set[str]] = {}
        """Names of workloads by queue."""
        self._queues: dict[str, str] = {}
        """The queue of each of them."""
        self._young: set[str] = set()
        """Those that have not run for long enough."""
        for name, tasks in state.tasks_of.items():
            workload = state.workloads[name]
            if tasks and workload.is_preemptible:
                self._enter(name, _queue(workload))
        self._units: dict[str, list[VictimUnit]] = {}
        self._found: dict[str, list[VictimUnit]] = {}
        """The units of each workload in `_units`."""
        self._emptied: dict[str, tuple[Ints, Ints, Ints]] = {}
        self._slots: dict[tuple[str, Shape], Ints] = {}
        self.needs: object = None
        """What `node_needs` has found of the units."""
        self.renewed: set[str] = set()
        """The workloads whose units were renewed since it did."""
        self._freed: dict[str, dict[str, FreedRoom]] = {}
        """By queue and pool."""

    @classmethod
    def current(cls, state: ClusterState, min_run_s: float) -> Victims:
        """The victims in a state as it is now: those of the decision before, renewed."""
        found = state.victims
        if not isinstance(found, cls) or found._min_run_s != min_run_s:
            if isinstance(found, cls):
                state.unwatch(found._touched)
            found = state.victims = cls(state, min_run_s)
            return found
        names = found._touched | found._young
        found._touched.clear()
        found.changed(names)
        found._emptied.clear()
        found._slots.clear()
        return found

    @property
    def queues(self) -> Iterable[str]:
        """The queues with units that may be ended."""
        return [queue for queue, names in self._names.items() if names and queue != OPPORTUNISTS]

    def of(self, queue: str) -> Sequence[VictimUnit]:
        """All units of a queue."""
        found = self._units.get(queue)
        if found is None:
            found = [unit for name in self._names.get(queue, ()) for unit in self._of(name)]
            found.sort(key=itemgetter(0))
            self._units[queue] = found
        return found

    def queue_of(self, name: str) -> str | None:
        """The queue of a workload with units; None: it has none."""
        return self._queues.get(name)

    def units_of(self, name: str) -> Sequence[VictimUnit]:
        """The units of a workload, if those of its queue were asked for."""
        return self._found.get(name, ())

    def freed(self, queue: str, pool: str) -> FreedRoom:
        """What the units of a queue would free in a pool."""
        units = self.of(queue)
        rooms = self._freed.setdefault(queue, {})
        found = rooms.get(pool)
        if found is None:
            rows: dict[str, list[Row]] = {}
            for unit in units:
                rows.setdefault(unit.workload.name, []).extend(self._rows(unit, pool))
            nodes = len(self._state.pools.placers[pool].cluster)
            found = rooms[pool] = FreedRoom(nodes, rows)
        for name in found.stale:
            own = self._found.get(name, ()) if self._queues.get(name) == queue else ()
            found.renew(name, [row for unit in own for row in self._rows(unit, pool)])
        found.stale.clear()
        return found

    def _rooms(self, queue: str | None) -> Iterable[FreedRoom]:
        return () if queue is None else self._freed.get(queue, {}).values()

    def _rows(self, unit: VictimUnit, pool: str) -> list[Row]:
        """What the tasks of a unit have in a pool."""
        seated, priority = self._state.seated, unit.workload.priority
        rows = []
        for task in unit.tasks:
            each = seated.get(task)
            if each is not None and each.place.pool == pool:
                node, _, milli = each.place.seat
                rows.append((priority, node, each.shape.gpus * milli))
        return rows

    def _enter(self, name: str, queue: str) -> None:
        self._names.setdefault(queue, set()).add(name)
        self._queues[name] = queue

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
        if self._min_run_s:
            if state.snapshot.now_s - since < self._min_run_s:
                self._young.add(name)
                return []
            self._young.discard(name)
        if not any(self._frees(task) for task in tasks):
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

    def _frees(self, task: Task) -> bool:
        """Whether others could begin where it ends."""
        pool, seat = self._state.seated[task].place
        return not seat.gpus or bool(self._state.pools.placers[pool].cluster.healthy(seat))

    def _since(self, task: Task) -> float:
        """When a task began; now, if this cycle started it."""
        began = self._state.began.get(task)
        return began.since_s if began else self._state.snapshot.now_s

    def changed(self, names: Iterable[str]) -> None:
        """Note that these workloads began or lost tasks, came or went."""
        state = self._state
        renewed: dict[str, list[VictimUnit]] = {}

        def units_of(queue: str) -> list[VictimUnit] | None:
            if queue not in renewed and queue in self._units:
                renewed[queue] = list(self._units[queue])  # others may still go through the old
            return renewed.get(queue)

        for name in names:
            self.renewed.add(name)
            before = self._queues.get(name)
            workload = state.workloads.get(name)
            now = None
            if workload is not None and workload.is_preemptible and state.tasks_of.get(name):
                now = _queue(workload)
            had = self._found.pop(name, None)
            if before is not None and before != now:
                self._names[before].discard(name)
                del self._queues[name]
                self._young.discard(name)
            if now is not None:
                self._enter(name, now)
            for room in (*self._rooms(before), *self._rooms(now)):
                room.stale.add(name)
            has = self._of(name) if now in self._units else None
            if now == before and had == has:
                continue
            if had and before is not None and (found := units_of(before)) is not None:
                for unit in had:
                    del found[bisect_left(found, unit.order, key=itemgetter(0))]
            if has and now is not None and (found := units_of(now)) is not None:
                for unit in has:
                    insort(found, unit, key=itemgetter(0))
        self._units.update(renewed)

    def emptied(self, pool: str) -> tuple[Ints, Ints, Ints]:
        """What would be free at most if all units ended: of GPUs [N, G], CPUs and memory [N].

        It is found once: tasks that begin later are not taken off, so it is never too little.
        """
        if not self._emptied:
            self._empty_all()
        return self._emptied[pool]

    def slots(self, pool: str, shape: Shape) -> Ints:
        """How many tasks of a shape would have room on each node at most if all units ended."""
        found = self._slots.get((pool, shape))
        if found is None:
            cluster = self._state.pools.placers[pool].cluster
            found = self._slots[pool, shape] = cluster.slots(shape, *self.emptied(pool))
        return found

    def _empty_all(self) -> None:
        state = self._state
        parts: dict[str, list[int]] = {name: [] for name in state.pools.placers}
        nodes: dict[str, list[int]] = {name: [] for name in state.pools.placers}
        for names in self._names.values():
            for name in names:
                for task in state.tasks_of[name]:
                    shape, (pool, (node, gpus, milli)), _ = state.seated[task]
                    for gpu in gpus:
                        parts[pool] += node, gpu, milli
                    nodes[pool] += node, shape.cpu_milli, shape.memory_mib
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
