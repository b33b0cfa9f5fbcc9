"""Reservations for large pieces: where and when they begin, and what may use the room before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from moiety.policy.cycle_settings import USUAL, CycleSettings
from moiety.policy.estimate.remaining_time import Runtimes, remaining, takes_at_most
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.snapshot import Running, Task
from moiety.policy.model.workloads import Workload
from moiety.policy.place.arrays import Bools, Ints, Mask, NodeArrays
from moiety.policy.place.pools import Masks, Place, both
from moiety.policy.preempt.upper_bound import UpperBound
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.waiting_lines import WaitingLines

TRIES_MAX: Final = 64
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

    workload: str
    start_s: float
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

    def clear(self) -> None:
        """Give all up."""
        self.all.clear()
        self._state.left_to = None

    def keep_for_long_waiting(self) -> None:
        """Reserve before anything begins: work that is worth more would always go first."""
        for piece in long_waiting(self._state):
            self.keep(piece)

    def keep(self, piece: GangPart) -> None:
        """Reserve room for a large piece that has waited for long and will have a turn."""
        state, settings, workload = self._state, self._settings, piece.workload
        waited = state.snapshot.now_s - workload.submitted_s
        if len(self.all) >= settings.reservations or waited < settings.reserve_after_s:
            return
        if piece.is_extra or workload.is_opportunistic or piece.amounts[GPU_MILLI] <= WHOLE_GPU:
            return
        kept = reserve(state, piece, settings)
        if kept is not None:
            self.all.append(kept)
            state.left_to = self.left_to

    def left_to(self, workload: Workload) -> Masks | None:
        """Where a workload may begin without delaying a reservation; None: everywhere."""
        masks: Masks | None = None
        for kept in self._before(workload):
            masks = both(masks, kept.left_to(self._state, workload))
        return masks

    def leave_all(self, workload: Workload) -> bool:
        """Whether a workload may begin everywhere."""
        return next(self._before(workload), None) is None

    def _before(self, workload: Workload) -> Iterator[Reservation]:
        """The reservations that a workload could delay."""
        if not self.all:
            return
        takes = takes_at_most(workload, self._settings.runtimes)
        for kept in self.all:
            if kept.workload == workload.name:
                continue
            if takes is None or self._state.snapshot.now_s + takes > kept.start_s:
                yield kept


class _End(NamedTuple):
    """A running task, as a reservation waits for it; they sort in the order of their ends."""

    is_unknown: bool
    end_s: float
    task: Task
    running: Running


def ends(state: ClusterState, runtimes: Runtimes, from_s: float) -> list[_End]:
    """The running tasks, in the order in which they were expected to end at `from_s`.

    The order does not change as time passes, or room would be kept now here, now there. Work
    without an estimate that began later comes last, and the oldest of it first.
    """
    now = state.snapshot.now_s
    found = []
    for task, seated in state.seated.items():
        began = state.began.get(task)
        if began is None:
            began = Running(task, seated.shape, state.pools.spot(seated.place), now)
        workload, since_s = state.workloads[task.workload], began.since_s
        if since_s > from_s and workload.max_run_s is None and runtimes(workload) is None:
            found.append(_End(True, since_s, task, began))
            continue
        at_s = max(since_s, from_s)
        end_s = at_s + remaining(workload, began, at_s, runtimes).expected_s
        found.append(_End(False, end_s, task, began))
    found.sort(key=lambda each: each[:3])
    return found


def reserve(
    state: ClusterState, piece: GangPart, settings: CycleSettings = USUAL
) -> Reservation | None:
    """When and where a piece will have room, if nothing else began; None: that is not foreseen."""
    mark, now_s, runtimes = state.mark(), state.snapshot.now_s, settings.runtimes
    from_s = min(piece.workload.submitted_s + settings.reserve_after_s, now_s)
    bound = UpperBound(state, piece)
    tries = 0
    stopped: list[tuple[Running, Place]] = []
    has_begun = False
    for each in ends(state, runtimes, from_s):
        place = state.stop(each.task).place
        stopped.append((each.running, place))
        bound.freed([(place.pool, place.seat.node)])
        if not bound.has_chance():
            continue
        if not state.standing.has_turn(piece.workload.queue, 0, piece.amounts):
            continue  # its queue has too much still
        before = state.mark()
        if start_piece(state, piece):
            has_begun = True
            break
        state.back(before)
        tries += 1
        if tries == TRIES_MAX:
            break
    if not has_begun:
        state.back(mark)
        return None
    seats = _seats(state, piece)
    then = {pool: _free(state, pool, list(gpus)) for pool, gpus in seats.items()}
    state.back(mark)
    holds = {pool: _hold(state, pool, seats[pool], then[pool]) for pool in seats}
    in_the_way = [stopped[-1][0]]
    for running, (pool, seat) in stopped:
        if not seats.get(pool, {}).get(seat.node, set()).isdisjoint(seat.gpus):
            in_the_way.append(running)
    start_s = now_s + max(
        remaining(state.workloads[each.task.workload], each, now_s, runtimes).expected_s
        for each in in_the_way
    )
    return Reservation(piece.workload.name, start_s, holds)


def long_waiting(state: ClusterState) -> Iterator[GangPart]:
    """The pieces of more than one GPU that have no room now, the oldest of each kind.

    They come by priority, then by age.
    """
    oldest = [
        line.entries[0][2]
        for lines in WaitingLines.current(state).of.values()
        for line in lines.values()
        if line.lacks[GPU_MILLI] > WHOLE_GPU
    ]
    for workload in sorted(oldest, key=lambda each: (-each.priority, each.submitted_s, each.name)):
        piece = next_piece(state, workload)
        assert piece
        mark = state.mark()
        has_room = start_piece(state, piece)
        state.back(mark)
        if not has_room:
            yield piece


Seats = dict[int, set[int]]
"""GPUs by the position of their node."""


class _Free(NamedTuple):
    """What is free on some nodes of a pool."""

    cpu_milli: Ints
    memory_mib: Ints
    gpus: Ints
    """[nodes, G]"""


def _seats(state: ClusterState, piece: GangPart) -> dict[str, Seats]:
    """Where a piece that has begun runs, by pool."""
    found: dict[str, Seats] = {}
    for task, _ in piece.tasks:
        pool, seat = state.seated[task].place
        found.setdefault(pool, {}).setdefault(seat.node, set()).update(seat.gpus)
    return found


def _free(state: ClusterState, pool: str, nodes: list[int]) -> _Free:
    cluster = state.pools.placers[pool].cluster
    return _Free(cluster.free_cpu[nodes], cluster.free_memory[nodes], cluster.left[nodes])


def _hold(state: ClusterState, pool: str, seats: Seats, then: _Free) -> Hold:
    """What has to stay free now, if `then` is what is free once the piece has begun.

    Other work can use what the piece leaves then, as far as it is free now. The rest of what is
    free now has to stay free.
    """
    now = _free(state, pool, list(seats))
    gpus = np.where(then.gpus > 0, np.maximum(now.gpus - then.gpus, 0), CLOSED)
    for row, used in zip(gpus, seats.values(), strict=True):
        row[[gpu for gpu in range(len(row)) if gpu not in used]] = 0
    return Hold(
        np.array(list(seats), np.int64),
        np.maximum(now.cpu_milli - then.cpu_milli, 0),
        np.maximum(now.memory_mib - then.memory_mib, 0),
        gpus,
    )
