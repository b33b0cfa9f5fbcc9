"""The turns of a tenant: how long it waits and holds, and what its comings cost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_COSTS = 5


@dataclass(slots=True)
class Lease:
    """The present turn of a tenant, or the next, and the sums of the earlier ones."""

    waits_since_s: float = 0.0
    """when it entered the queue"""
    turn_ends_s: float = 0.0
    is_guest: bool = False
    """it passed others in the queue, and leaves as soon as one of them could come"""
    costs_s: deque[float] = field(default_factory=lambda: deque(maxlen=_COSTS))
    """what its last comings cost for which memory moved"""
    cost_s: float = 0.0
    """their median; 0 where nothing moved lately"""
    is_moving: bool = False
    """memory moves for its coming, its own or others'"""
    queue_s: float = 0.0
    """the bound on unfinished work that it was told; 0: none"""
    kept_until_s: float = 0.0
    """its lease was given back and is not revoked before that"""
    turns: int = 0
    held_s: float = 0.0
    handoffs_s: float = 0.0
    """what its comings took together"""
    round_s: float = 0.0
    """what the hand-offs of all who take turns with it cost, each coming once, as it began"""
    window_ends_s: float = 0.0
    """no pause begins before that: what was moved in is used first"""
