"""The turns of a tenant: how long it waits and holds, and what its hand-offs cost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_COSTS = 5


@dataclass(slots=True)
class Lease:
    """The present turn of a tenant, or the next, and the sums of the earlier ones."""

    waits_since_s: float = 0.0
    """When it entered the queue."""
    turn_ends_s: float = 0.0
    is_guest: bool = False
    """It passed others in the queue, and leaves as soon as one of them could come."""
    costs_s: deque[float] = field(default_factory=lambda: deque(maxlen=_COSTS))
    """Costs of its last hand-offs for which memory moved."""
    cost_s: float = 0.0
    """The median of `costs_s`; 0 if no memory moved lately."""
    is_moving: bool = False
    """Memory moves for its hand-off, its own or that of others."""
    queue_s: float = 0.0
    """The bound on unfinished work that it was told; 0: none."""
    kept_until_s: float = 0.0
    """Its lease was reopened and is not revoked before that time."""
    turns: int = 0
    held_s: float = 0.0
    handoffs_s: float = 0.0
    """The time of all its hand-offs together."""
    round_s: float = 0.0
    """At the beginning of its turn: the cost of one hand-off to each tenant that takes turns."""
    window_ends_s: float = 0.0
    """No pause for its limit begins before that: what was moved in is used first."""
    beside_from_s: float = 0.0
    """From when on its bound may be the wide one (queue_depth.py)."""
