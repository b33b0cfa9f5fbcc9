"""How far a cycle may go, and what its plan has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moiety.policy.estimate.remaining_time import Runtimes, unknown


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """How far a cycle may go to make room, and which workloads get reservations."""

    min_run_s: float = 0.0
    """A task that has run for less is neither ended nor moved for others."""
    moves_max: int = 64
    """The most tasks that are moved in one cycle to make room, also where others end for the same
    room: tasks that would have to move beyond that end instead."""
    defragment_moves: int = 0
    """The most tasks that are moved to make free room more useful, in a cycle in which nothing else
    moves or ends."""
    reservations: int = 1
    """The most workloads that wait for more than one GPU and get a reservation; as many more get
    one that wait for a GPU or a part of it, and as many without GPUs, where work waits that could
    always overtake them."""
    reserve_after_s: float = 600.0
    """How long a workload waits before it gets a reservation."""
    lasting_queues: frozenset[str] = frozenset()
    """Queues whose work is not expected to end: no room is kept for the time after it."""
    runtimes: Runtimes = unknown
    reasons: bool = True
    """Whether the plan says why each workload waits; a replay does not ask."""
    worth_ends: bool = True
    """Whether work ends for work of its own queue that is worth more; False: it is suspended for
    it where it can be, or stays. What queues have a right to is not changed."""
    worth_orders: bool = True
    """Whether work that is worth more goes first within its queue; False: the oldest does."""
    scales: bool = True
    """Whether the plan says which nodes of dynamic pools start and go."""


USUAL: Final = CycleSettings()
