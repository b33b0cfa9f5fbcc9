"""The order that a tenant carries out, and whether it does so in time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Drain:
    """The progress of a drain, and of each other order to one tenant."""

    resumed: bool = False
    """it outlived its agent"""
    answered: bool = False
    """it has drained, and its gang has not"""
    detained: bool = False
    """and cannot for now, so that nothing of this one may leave"""
    stuck_until_s: float = 0.0
    """its last eviction failed: no victim until then, or until it held a lease again"""
    silent: bool = False
    """it has not answered an order for too long: its memory counts as unable to leave"""
    stopped: bool = False
    """and that is why: its process is stopped (SIGSTOP, a frozen container)"""
    wants_again: bool = False
    wants_since_s: float = 0.0
    """when it said so, or asked for memory, after its lease was taken back"""
    told_s: float = 0.0
    """when it was given the order that it has not carried out yet"""
    due_s: float = 0.0
    """when that is reported (again); 0: nothing is due"""
    look_s: float = 0.0
    """when to look whether its process is stopped"""
    reopens: int = 0
    """how often its lease was given back in this hand-off, so that its last work can end"""
    gave_up: int = 0
    """how often in a row it could not be drained"""
