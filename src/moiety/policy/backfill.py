"""Reservations for work that smaller work could always overtake: where and when it begins.

They also say what may use the room before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from moiety.policy.cycle_settings import USUAL, CycleSettings
from moiety.policy.estimate.remaining_time import (
    as_long_again,
    remaining,
    takes_at_most,
)
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.snapshot import Running, Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.arrays import Bools, Ints, Mask, NodeArrays
from moiety.policy.place.pools import Masks, Place, both
from moiety.policy.preempt.upper_bound import UpperBound
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.waiting_lines import SmallestTasks, WaitingLines, smallest_tasks

TRIES_MAX: Final = 64
IN_VAIN_MAX: Final = 8
"""After this many pieces without a reservation, no piece of one GPU or less is tried."""
LARGE: Final = 2
"""The class of work that asks for more than one GPU."""
CLOSED: Final = WHOLE_GPU + 1
"""More thousandths than any GPU has left: nothing else begins there."""


class Hold(NamedTuple):
    """What has to stay free on some nodes of a pool until a piece begins there."""

    at: Ints
    """The positions of the nodes."""
    cpu_milli: Ints
    memory_mib: Ints
    gpus: Ints
    """[nodes, G]: thousandths of each GPU."""

    def left_to(self, cluster: NodeArrays, workload: Workload) -> Mask:
        """Where a task of another workload leaves this free, whichever of its tasks it is."""
        shapes = [subgroup.shape for subgroup in workload.subgroups]
        cpu = max(shape.cpu_milli for shape in shapes)
        memory = max(shape.memory_mib for shape in shapes)
        nodes: Bools = np.ones(len(cluster), np.bool_)
        nodes[self.at] = (cluster.free_cpu[self.at] - cpu >= self.cpu_milli) & (
            cluster.free_memory[self.at] - memory >= self.memory_mib
        )
        with_gpus = [shape for shape in shapes if shape.gpus]
        if not with_gpus:
            return Mask(nodes)
        gpus: Bools = np.ones(cluster.left.shape, np.bool_)
        is_open = self.gpus == 0
        if not cluster.counts_memory and not any(shape.is_apart for shape in with_gpus):
            milli = [np.reshape(cluster.milli(shape, self.at), (-1, 1)) for shape in with_gpus]
            is_open |= cluster.left[self.at] - np.maximum.reduce(milli) >= self.gpus
        gpus[self.at] = is_open
        return Mask(nodes, gpus)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that a workload is expected to get when the tasks in its way have ended."""

    task: Task
    """The first of the tasks that begin there together."""
    start_s: float
    gpu_milli: int
    """What it is for, in thousandths of GPUs."""
    least: Shape
    """What its smallest task asks for, in each respect."""
    has_room: bool
    """Whether all that it needs is free now."""
    holds: Mapping[str, Hold]
    """By pool."""

    def left_to(self, state: ClusterState, workload: Workload) -> Masks:
        """Where another workload may begin without delaying this one."""
        masks = {}
        for pool, placer in state.pools.placers.items():
            hold = self.holds.get(pool)
            if hold is None:
                masks[pool] = Mask(np.ones(len(placer.cluster), np.bool_))
            else:
                masks[pool] = hold.left_to(placer.cluster, workload)
        return masks

    def nodes(self) -> Iterator[tuple[str, int]]:
        """The nodes on which it has room kept."""
        for pool, hold in self.holds.items():
            yield from ((pool, at) for at in hold.at.tolist())


class Reservations:
    """The reservations of one pass over all that waits."""

    def __init__(self, state: ClusterState, settings: CycleSettings) -> None:
        self._state = state
        self._settings = settings
        self.all: list[Reservation] = []
        self._smallest = SmallestTasks()
        self._in_vain = 0

    def begin(self) -> None:
        """Give all up, and look at what waits now."""
        self.all.clear()
        self._state.left_to = None
        self._in_vain = 0
        if self._settings.reservations:
            self._smallest = smallest_tasks(self._state)

    def keep_for_long_waiting(self) -> None:
        """Reserve before anything begins: work that is worth more would always go first."""
        state = self._state
        oldest = [
            line.entries[0][2]
            for lines in WaitingLines.current(state).of.values()
            for line in lines.values()
            if any(line.lacks)
        ]
        oldest.sort(key=lambda each: (-each.priority, each.submitted_s, each.name))
        for workload in oldest:
            piece = next_piece(state, workload)
            assert piece
            self.keep(piece)

    def keep(self, piece: GangPart) -> None:
        """Reserve room for a piece that has waited for long and will have a turn."""
        if not self._may_have(piece):
            return
        kept = reserve(self._state, piece, self._settings)
        if kept is None:
            self._in_vain += 1
        else:
            self.all.append(kept)
            self._state.left_to = self.left_to

    def _may_have(self, piece: GangPart) -> bool:
        """Whether a piece, or one like it, has waited for long, and smaller work could pass it."""
        state, settings, workload = self._state, self._settings, piece.workload
        if piece.is_extra or workload.is_opportunistic or not any(piece.amounts):
            return False
        long_ago_s = state.snapshot.now_s - settings.reserve_after_s
        if not WaitingLines.current(state).waits_since(workload, long_ago_s):
            return False
        size = _size_class(piece.amounts[GPU_MILLI])
        if sum(_size_class(each.gpu_milli) == size for each in self.all) >= settings.reservations:
            return False
        if size == LARGE:
            return True
        return self._in_vain < IN_VAIN_MAX and self._is_passed(piece)

    def _is_passed(self, piece: GangPart) -> bool:
        """Whether work waits that finds room where this piece, of one GPU or less, has none."""
        small, shapes = self._smallest, [shape for shape, _ in piece.shapes]
        milli = max(self._state.amounts_of(((shape, 1),))[GPU_MILLI] for shape in shapes)
        cpu = max(shape.cpu_milli for shape in shapes)
        memory = max(shape.memory_mib for shape in shapes)
        if 0 < small.gpu_milli < milli:
            return True
        if milli and ((cpu and small.cpu_without_gpu) or (memory and small.memory_without_gpu)):
            return True
        if not (0 < small.cpu_milli < cpu or 0 < small.memory_mib < memory):
            return False
        return not milli or any(self._lacks_host(piece, shape) for shape in shapes)

    def _lacks_host(self, piece: GangPart, shape: Shape) -> bool:
        """Whether a node has GPUs for a task, and too little CPU or memory."""
        only_gpus = replace(shape, cpu_milli=0, memory_mib=0)
        placers = self._state.pools.placers
        for pool in self._state.pools.open_to(piece.workload):
            cluster = placers[pool].cluster
            if (cluster.has_room(only_gpus) & ~cluster.has_room(shape)).any():
                return True
        return False

    def left_to(self, workload: Workload) -> Masks | None:
        """Where a workload may begin without delaying a reservation; None: everywhere."""
        masks: Masks | None = None
        for kept in self._before(workload):
            masks = both(masks, kept.left_to(self._state, workload))
        return masks

    def leave_all(self, workload: Workload) -> bool:
        """Whether a workload may begin everywhere."""
        return next(self._before(workload), None) is None

    def bar(self, piece: GangPart) -> bool:
        """Whether a piece has room, and waits only because that is kept for others."""
        state = self._state
        if self.leave_all(piece.workload):
            return False
        mark, left_to = state.mark(), state.left_to
        state.left_to = None
        has_room = start_piece(state, piece)
        state.back(mark)
        state.left_to = left_to
        return has_room

    def _before(self, workload: Workload) -> Iterator[Reservation]:
        """The reservations that a workload could delay."""
        if not self.all:
            return
        takes = takes_at_most(workload, self._settings.runtimes)
        for kept in self.all:
            if kept.task.workload == workload.name or kept.task in self._state.seated:
                continue
            if self._is_older(workload, kept):
                continue  # it is what comes later that could go past for ever
            if kept.has_room and not self._is_smaller(workload, kept):
                continue  # the order of service decides between them
            if takes is None or self._state.snapshot.now_s + takes > kept.start_s:
                yield kept

    def _is_older(self, workload: Workload, kept: Reservation) -> bool:
        other = self._state.workloads[kept.task.workload]
        return (-workload.priority, workload.submitted_s) < (-other.priority, other.submitted_s)

    def _is_smaller(self, workload: Workload, kept: Reservation) -> bool:
        """Whether a workload could take the room of a reservation and leave too little."""
        if kept.gpu_milli:
            return self._size(workload) < min(kept.gpu_milli, WHOLE_GPU)
        shapes, least = [each.shape for each in workload.subgroups], kept.least
        cpu = min(shape.cpu_milli for shape in shapes)
        memory = min(shape.memory_mib for shape in shapes)
        return cpu < least.cpu_milli or memory < least.memory_mib

    def _size(self, workload: Workload) -> int:
        """The thousandths of GPUs that a workload begins with; the least that it can grow by."""
        state = self._state
        parts = workload.subgroups
        if not state.tasks_of.get(workload.name) and any(each.tasks_min for each in parts):
            return state.amounts_of((each.shape, each.tasks_min) for each in parts)[GPU_MILLI]
        return min(state.amounts_of(((each.shape, 1),))[GPU_MILLI] for each in parts)


class _End(NamedTuple):
    """A running task, as a reservation waits for it; they sort in the order of their ends."""

    is_unknown: bool
    end_s: float
    task: Task
    running: Running


def ends(state: ClusterState, settings: CycleSettings, from_s: float) -> list[_End]:
    """The running tasks, in the order in which they were expected to end at `from_s`.

    The order does not change as time passes, or room would be kept now here, now there. Work
    without an estimate that began later comes last, and the oldest of it first.
    """
    now, runtimes = state.snapshot.now_s, settings.runtimes
    found = []
    for task, seated in state.seated.items():
        if state.workloads[task.workload].queue in settings.lasting_queues:
            continue
        began = state.began.get(task)
        if began is None:
            began = Running(task, seated.shape, state.pools.spot(seated.place), now)
        workload, since_s = state.workloads[task.workload], began.since_s
        is_known = workload.max_run_s is not None or runtimes(workload) is not None
        at_s = max(since_s, from_s)
        if is_known:
            end_s = at_s + remaining(workload, began, at_s, runtimes).expected_s
        else:  # the same as `remaining` has, and there can be thousands
            end_s = at_s + as_long_again(at_s - since_s)
        found.append(_End(since_s > from_s and not is_known, end_s, task, began))
    found.sort()  # no two are of one task
    return found


def reserve(
    state: ClusterState, piece: GangPart, settings: CycleSettings = USUAL
) -> Reservation | None:
    """When and where a piece will have room, if nothing else began; None: that is not foreseen."""
    mark, now_s, queue = state.mark(), state.snapshot.now_s, piece.workload.queue
    standing, runtimes = state.standing, settings.runtimes
    if start_piece(state, piece):  # else parts of GPUs could take the room in the last moment
        seats = _Seats(state, piece)
        state.back(mark)
        has_turn = standing.has_turn(queue, 0, piece.amounts)
        return seats.reservation(piece, now_s, has_room=True) if has_turn else None
    found: _Seats | None = None
    bound = UpperBound(state, piece)
    tries, root = 0, standing.paths[queue][0]
    stopped: list[tuple[Running, Place]] = []
    has_turn = False
    from_s = min(piece.workload.submitted_s + settings.reserve_after_s, now_s)
    for each in ends(state, settings, from_s):
        theirs = state.workloads[each.task.workload].queue
        if found is not None and standing.paths[theirs][0] != root:
            continue  # only what its own queues have is still too much
        place = state.stop(each.task).place
        stopped.append((each.running, place))
        if found is None:
            bound.freed([(place.pool, place.seat.node)])
            if not bound.has_chance():
                continue
            before = state.mark()
            if start_piece(state, piece):
                found = _Seats(state, piece)
            state.back(before)
            tries += 1
        has_turn = found is not None and standing.has_turn(queue, 0, piece.amounts)
        if has_turn or (found is None and tries == TRIES_MAX):
            break
    state.back(mark)
    if found is None or not has_turn:
        return None
    in_the_way = [running for running, place in stopped if found.has(place)]
    left_s = [
        remaining(state.workloads[each.task.workload], each, now_s, runtimes).expected_s
        for each in (*in_the_way, stopped[-1][0])
    ]
    return found.reservation(piece, now_s + max(left_s), has_room=False)


def _size_class(gpu_milli: int) -> int:
    """`LARGE`, or whether it asks for GPUs at all: each class has reservations of its own."""
    return LARGE if gpu_milli > WHOLE_GPU else min(gpu_milli, 1)


class _Free(NamedTuple):
    """What is free on some nodes of a pool."""

    cpu_milli: Ints
    memory_mib: Ints
    gpus: Ints
    """[nodes, G]"""

    @classmethod
    def on(cls, cluster: NodeArrays, nodes: list[int]) -> _Free:
        """What is free there now."""
        return cls(cluster.free_cpu[nodes], cluster.free_memory[nodes], cluster.left[nodes])


class _Seats:
    """Where a piece has begun for a trial, and what it leaves there."""

    def __init__(self, state: ClusterState, piece: GangPart) -> None:
        self._placers = state.pools.placers
        self._gpus: dict[str, dict[int, set[int]]] = {}
        """By pool and position of the node."""
        for task, _ in piece.tasks:
            pool, seat = state.seated[task].place
            self._gpus.setdefault(pool, {}).setdefault(seat.node, set()).update(seat.gpus)
        self._then = {pool: self._free(pool) for pool in self._gpus}

    def _free(self, pool: str) -> _Free:
        return _Free.on(self._placers[pool].cluster, list(self._gpus[pool]))

    def has(self, place: Place) -> bool:
        """Whether a task in a place uses a GPU of these, or a node of which no GPU is used."""
        pool, seat = place
        mine = self._gpus.get(pool, {}).get(seat.node)
        return mine is not None and (not mine or not mine.isdisjoint(seat.gpus))

    def reservation(self, piece: GangPart, start_s: float, *, has_room: bool) -> Reservation:
        """What has to stay free of what is free now, when the trial is undone."""
        holds = {pool: self._hold(pool) for pool in self._gpus}
        gpu_milli = piece.amounts[GPU_MILLI]
        least = Shape(
            min(shape.cpu_milli for shape, _ in piece.shapes),
            min(shape.memory_mib for shape, _ in piece.shapes),
        )
        return Reservation(piece.tasks[0][0], start_s, gpu_milli, least, has_room, holds)

    def _hold(self, pool: str) -> Hold:
        """Other work can use what the piece leaves then, as far as it is free now."""
        now, then, seats = self._free(pool), self._then[pool], self._gpus[pool]
        gpus = np.where(then.gpus > 0, np.maximum(now.gpus - then.gpus, 0), CLOSED)
        for row, used in zip(gpus, seats.values(), strict=True):
            row[[gpu for gpu in range(len(row)) if gpu not in used]] = 0
        return Hold(
            np.array(list(seats), np.int64),
            np.maximum(now.cpu_milli - then.cpu_milli, 0),
            np.maximum(now.memory_mib - then.memory_mib, 0),
            gpus,
        )
