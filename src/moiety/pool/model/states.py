"""The states of work in the pool, and which follows which."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class WorkState(StrEnum):
    """Where a workload of the pool is in its life."""

    PENDING = "pending"
    """It waits for the engine's decision."""
    HELD = "held"
    """It waits until a user releases it."""
    STARTING = "starting"
    """The decision is committed; its program is about to be started."""
    RUNNING = "running"
    SUSPENDING = "suspending"
    """It takes no turns any more, and its memory leaves the GPUs."""
    SUSPENDED = "suspended"
    """Its processes rest; what cannot leave the GPUs is still there."""
    RESUMING = "resuming"
    """It gets its turns back."""
    ENDING = "ending"
    """It was told to end and has not ended yet."""
    DONE = "done"
    """Its program ended with exit code 0."""
    FAILED = "failed"
    """Its program ended with another exit code, or by a signal."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    """It ran for as long as it may."""


ENDS: Final = frozenset(
    {WorkState.DONE, WorkState.FAILED, WorkState.CANCELLED, WorkState.TIMED_OUT}
)
"""The states that nothing leaves."""
RESTING: Final = frozenset({WorkState.SUSPENDING, WorkState.SUSPENDED, WorkState.RESUMING})
"""The states between the moment it is suspended and the moment it runs again."""
ACTIVE: Final = frozenset({WorkState.STARTING, WorkState.RUNNING, WorkState.ENDING}) | RESTING
"""The states in which a workload has an attempt: GPUs, or a place on them."""
WAITING: Final = frozenset({WorkState.PENDING, WorkState.HELD})

FOLLOWS: Final = {
    WorkState.PENDING: frozenset({WorkState.HELD, WorkState.STARTING, WorkState.CANCELLED}),
    WorkState.HELD: frozenset({WorkState.PENDING, WorkState.CANCELLED}),
    WorkState.STARTING: frozenset(
        {WorkState.RUNNING, WorkState.ENDING, WorkState.PENDING, WorkState.HELD} | ENDS
    ),
    WorkState.RUNNING: frozenset(
        {WorkState.SUSPENDING, WorkState.ENDING, WorkState.PENDING, WorkState.HELD} | ENDS
    ),
    WorkState.SUSPENDING: frozenset(
        {WorkState.SUSPENDED, WorkState.RESUMING, WorkState.ENDING}
        | {WorkState.PENDING, WorkState.HELD}
        | ENDS
    ),
    WorkState.SUSPENDED: frozenset(
        {WorkState.RESUMING, WorkState.ENDING, WorkState.PENDING, WorkState.HELD} | ENDS
    ),
    WorkState.RESUMING: frozenset(
        {WorkState.RUNNING, WorkState.SUSPENDING, WorkState.ENDING}
        | {WorkState.PENDING, WorkState.HELD}
        | ENDS
    ),
    WorkState.ENDING: frozenset({WorkState.PENDING, WorkState.HELD} | ENDS),
}
"""By state: the states that can follow. The last ones have none."""


def may_follow(before: WorkState, after: WorkState) -> bool:
    """Whether a workload may go from one state to another."""
    return after in FOLLOWS.get(before, frozenset())
