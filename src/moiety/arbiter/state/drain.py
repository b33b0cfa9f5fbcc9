"""The order that a tenant carries out, and whether it does so in time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Drain:
    """The progress of a drain, and of each other order to one tenant."""

    resumed: bool = False
    """The process outlived its agent."""
    unproven: bool = False
    """Only its own word says so."""
    answered: bool = False
    """It has drained, and its gang has not."""
    detained: bool = False
    """Its gang cannot be drained now, so none of this tenant's bytes may leave."""
    stuck_until_s: float = 0.0
    """Its last eviction failed: it is no victim until then, or until it gets a lease again."""
    silent: bool = False
    """It is overdue with an order: its memory counts as unable to leave."""
    stopped: bool = False
    """It does not answer because its process is stopped (SIGSTOP, a frozen container)."""
    wants_again: bool = False
    wants_since_s: float = 0.0
    """When it wanted its lease again, or requested memory, after the revoke."""
    told_s: float = 0.0
    """When it was given the order that it has not carried out yet."""
    due_s: float = 0.0
    """When the open order is reported as overdue (again); 0: nothing is due."""
    look_s: float = 0.0
    """When to check whether its process is stopped."""
    reopens: int = 0
    """How often its lease was reopened in this hand-off, so that its last work can end."""
    gave_up: int = 0
    """How often in a row it could not be drained."""
