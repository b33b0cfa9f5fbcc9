"""Victims: which tasks may be made to yield, for which pieces, and in which order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Workload
from moiety.policy.place.arrays import Ints
from moiety.policy.queue.queue_usage import CLOSE, GPU_MILLI, TURN_S
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart

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


class EvictionRight(IntEnum):
    """A right to take, the strongest first."""

    QUOTA = 0
    SHARE = 1
    CREDIT = 2


class ReclaimCheck:
    """The right by which a piece takes from other queues; checked before each unit, and in the end.

    Queues are compared where their paths part: there, and below on the side of the piece. The piece
    may take from a queue above its quota, as long as the piece's side stays within quota. It may
    take from a queue above its fair share, as long as the piece's side stays within its own; in the
    end the piece's side must not have more of what it should have than the queue that yielded, and
    that queue must not have less than its quota. It may take from a queue in debt, down to quota,
    if the piece's side has credit for a turn, or is in debt by a turn less; while the credit lasts,
    that turn is not taken from it by fair share.

    A unit that is larger than all that is due to its queue cannot yield in part. It yields by fair
    share to a side that has at most half of its own, whatever its queue has left then; but not
    before it has run for a turn, nor within a turn of the last such exchange between the two. What
    its queue lacks after that becomes its credit.
    """

    def __init__(self, state: ClusterState, piece: GangPart) -> None:
        self._state = state
        self._standing = state.standing
        self._queue = piece.workload.queue
        self._amounts = piece.amounts
        self._may: dict[tuple[int, EvictionRight], bool] = {}
        """Whether the piece's side may take by that right, from a level down."""
        self._may_of = -1
        self._rights: dict[str, EvictionRight | None] = {}
        """The strongest right to units of each queue, and `_asked`, for the same usage."""
        self._asked: dict[str, list[int]] = {}
        self._outsized: dict[str, list[VictimUnit]] = {}
        """Units by queue that were picked and are larger than what is due to their queue."""
        self._taken: dict[str, EvictionRight] = {}
        """The queues from which units were taken, each with the weakest right that was used."""

    def _side(self, other: str) -> tuple[int, str, str]:
        level = self._standing.fork(self._queue, other)
        return level, self._standing.paths[self._queue][level], self._standing.paths[other][level]

    def _by(self, other: str) -> EvictionRight | None:
        """The strongest right to units of a queue; None: there is none."""
        self._renew()
        try:
            return self._rights[other]
        except KeyError:
            found = self._rights[other] = self._find_right(other)
            return found

    def _renew(self) -> None:
        """Forget what was found for another usage of the queues."""
        if self._may_of != self._standing.version:
            self._may_of = self._standing.version
            self._may.clear()
            self._rights.clear()
            self._asked.clear()

    def _find_right(self, other: str) -> EvictionRight | None:
        standing = self._standing
        level, mine, theirs = self._side(other)
        if not any(self._may_ask(level, by) for by in EvictionRight):
            return None
        is_over_quota = standing.is_over_quota(theirs)
        if is_over_quota and self._may_ask(level, EvictionRight.QUOTA):
            return EvictionRight.QUOTA
        if self._may_ask(level, EvictionRight.SHARE) and standing.is_over_fair_share(theirs):
            return EvictionRight.SHARE
        if (
            is_over_quota
            and self._has_turn_over(mine, theirs)
            and self._may_ask(level, EvictionRight.CREDIT)
        ):
            return EvictionRight.CREDIT
        return None

    def _has_turn_over(self, mine: str, theirs: str) -> bool:
        """Whether a queue is in debt, by a turn of the piece more than the queue that asks.

        Without that difference, two queues in debt would take the same room from each other at one
        moment, for ever.
        """
        theirs_s = self._standing.credit.get(theirs, 0.0)
        if theirs_s >= 0:
            return False
        turn_s = self._amounts[GPU_MILLI] / WHOLE_GPU * TURN_S
        return self._standing.credit.get(mine, 0.0) - theirs_s >= turn_s

    def _may_ask(self, level: int, by: EvictionRight) -> bool:
        found = self._may.get((level, by))
        if found is None:
            if by is EvictionRight.CREDIT:
                found = self._standing.has_turn(self._queue, level, self._amounts)
            else:
                is_quota = by is EvictionRight.QUOTA
                found = self._standing.within(self._queue, level, self._amounts, quota=is_quota)
            self._may[level, by] = found
        return found

    def could(self, other: str) -> bool:
        """Whether any unit may be taken from a queue now, before the piece has its place."""
        return other != self._queue and self._by(other) is not None

    def covers_all(self, other: str) -> bool:
        """Whether the right to a queue covers each of its units, before any has ended."""
        return self._by(other) is EvictionRight.QUOTA

    def reaches(self, unit: VictimUnit) -> bool:
        """Whether the right to take from a queue covers a unit of it.

        By fair share it covers units with some of the resource that the queue has too much of: a
        queue with too many GPUs does not lose CPU-only tasks for that. By credit it covers units
        with GPUs.
        """
        other = unit.workload.queue
        by = self._by(other)
        if by is EvictionRight.QUOTA:
            return True
        standing, seated = self._standing, self._state.seated
        _, _, theirs = self._side(other)
        here = [seated[task].amounts for task in unit.tasks if task in seated]
        if by is EvictionRight.CREDIT:
            return any(amounts[GPU_MILLI] for amounts in here)
        gpu_milli = sum(amounts[GPU_MILLI] for amounts in here)
        if standing.credit.get(theirs, 0.0) > 0 and standing.is_too_much(theirs, gpu_milli):
            return False
        asked = self._asked.get(theirs)
        if asked is None:
            asked = self._asked[theirs] = standing.above_fair_share(theirs)
        return any(amounts[at] for amounts in here for at in asked)

    def take(self, unit: VictimUnit) -> None:
        """Note the right by which a unit is about to be taken from its queue."""
        other = unit.workload.queue
        by = self._by(other)
        assert by is not None
        if by is EvictionRight.SHARE and self._may_exchange(unit):
            self._outsized.setdefault(other, []).append(unit)
        self._taken[other] = max(by, self._taken.get(other, EvictionRight.QUOTA))

    def _may_exchange(self, unit: VictimUnit) -> bool:
        """Whether a unit is larger than what is due to its queue, and has had its turn."""
        standing, seated = self._standing, self._state.seated
        _, mine, theirs = self._side(unit.workload.queue)
        gpu_milli = sum(seated[task].amounts[GPU_MILLI] for task in unit.tasks)
        now_s = self._state.snapshot.now_s
        since_s = max(unit.since_s, self._state.snapshot.exchanged_s.get((mine, theirs), -inf))
        if now_s - since_s < TURN_S or not standing.is_too_much(theirs, gpu_milli):
            return False
        return 2 * standing.has[mine][GPU_MILLI] <= standing.fair[mine][GPU_MILLI]

    def exchanges(self) -> list[tuple[str, str]]:
        """The pairs of queues between which a unit larger than its queue's due has ended."""
        seated = self._state.seated
        return [
            self._side(other)[1:]
            for other, units in self._outsized.items()
            if any(task not in seated for unit in units for task in unit.tasks)
        ]

    def holds(self) -> bool:
        """Whether all that was taken is still right, now that the piece has its place."""
        standing = self._standing
        exchanges = self.exchanges()
        for other, by in self._taken.items():
            level, mine, theirs = self._side(other)
            if by is EvictionRight.CREDIT:
                has_turn = standing.has_turn(self._queue, level, self._amounts, is_in=True)
                if not has_turn or standing.is_below_quota(theirs):
                    return False
                continue
            is_quota = by is EvictionRight.QUOTA
            if not standing.is_within(self._queue, level, self._amounts, quota=is_quota):
                return False
            if is_quota or not standing.is_below_fair_share(theirs) or (mine, theirs) in exchanges:
                continue
            if standing.is_below_quota(theirs):
                return False
            if standing.ratio(mine) > standing.ratio(theirs) + CLOSE:
                return False
        return True

    def order(self, other: str) -> tuple[float, float, int, float]:
        """Sort key: first the queue that has most in relation to what it should have."""
        _, _, theirs = self._side(other)
        standing = self._standing
        return (
            -standing.ratio(theirs),
            -standing.ratio(other),
            standing.tree.queues[theirs].priority,
            -standing.part(other),
        )


def by_right(
    right: ReclaimCheck,
    queues: Iterable[str],
    of: Callable[[str], Sequence[VictimUnit]],
    without: str,
) -> Iterator[VictimUnit]:
    """Units of other queues, one after the other, as long as the right to them lasts.

    The next unit depends on what the earlier ones have left, so each has to end before the next is
    requested. `of` gives the units of a queue; no workload yields to itself (`without`).
    """
    lines: dict[str, Iterator[VictimUnit]] = {}
    following: dict[str, VictimUnit | None] = {}

    def first(queue: str) -> VictimUnit | None:
        if queue not in lines:
            lines[queue] = iter(of(queue))
            following[queue] = next(lines[queue], None)
        unit = following[queue]
        while unit and (unit.workload.name == without or not right.reaches(unit)):
            unit = next(lines[queue], None)  # nor will it later: what is too much only gets less
        following[queue] = unit
        return unit

    others = list(queues)
    while True:
        open_ = [(right.order(queue), queue) for queue in others if right.could(queue)]
        candidates: list[tuple[tuple[int, bool, float, float, ReversedName, int], str]] = []
        for _, found in groupby(sorted(open_), key=lambda each: each[0]):
            heads = [(first(queue), queue) for _, queue in found]
            candidates = [(unit.order, queue) for unit, queue in heads if unit]
            if candidates:
                break
        if not candidates:
            return
        _, queue = min(candidates)
        unit = following[queue]
        assert unit
        following[queue] = next(lines[queue], None)
        right.take(unit)
        yield unit
