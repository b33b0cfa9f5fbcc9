"""Reservations for large pieces: where and when they begin, and what may use the room before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from moiety.policy.estimate.remaining_time import Runtimes, remaining
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.snapshot import Running
from moiety.policy.place.arrays import Mask
from moiety.policy.place.pools import Masks
from moiety.policy.preempt.upper_bound import UpperBound
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.waiting_lines import WaitingLines

TRIES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that a workload is expected to get when the tasks in its way have ended."""

    workload: str
    start_s: float
    others: Masks
    """The nodes that are left to other workloads."""


def ends(state: ClusterState, runtimes: Runtimes) -> list[tuple[float, Running]]:
    """The running tasks, in the order in which they are expected to end."""
    now = state.snapshot.now_s
    found = []
    for task, seated in state.seated.items():
        began = state.began.get(task)
        if began is None:
            began = Running(task, seated.shape, state.pools.spot(seated.place), now)
        workload = state.workloads[task.workload]
        found.append((now + remaining(workload, began, now, runtimes).expected_s, began))
    found.sort(key=lambda each: (each[0], each[1].task))
    return found


def reserve(state: ClusterState, piece: GangPart, runtimes: Runtimes) -> Reservation | None:
    """When and where a piece will have room, if nothing else began; None: that is not foreseen."""
    mark = state.mark()
    bound = UpperBound(state, piece)
    tries = 0
    found: Reservation | None = None
    for at_s, running in ends(state, runtimes):
        place = state.stop(running.task).place
        bound.freed([(place.pool, place.seat.node)])
        if not bound.has_chance():
            continue
        if not state.standing.has_turn(piece.workload.queue, 0, piece.amounts):
            continue  # its queue has too much still
        before = state.mark()
        if start_piece(state, piece):
            found = Reservation(piece.workload.name, at_s, _others(state, piece))
            break
        state.back(before)
        tries += 1
        if tries == TRIES_MAX:
            break
    state.back(mark)
    return found


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


def _others(state: ClusterState, piece: GangPart) -> Masks:
    masks = {
        pool: Mask(np.ones(len(placer.cluster), np.bool_))
        for pool, placer in state.pools.placers.items()
    }
    for task, _ in piece.tasks:
        place = state.seated[task].place
        masks[place.pool].nodes[place.seat.node] = False
    return masks
