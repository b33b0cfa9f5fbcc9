"""The states of a tenant, with every transition there is.

                 wanted                 chosen                  ready
      +------+ --------> +--------+ ---------> +-----------+ ------> +---------+ reopened
      | IDLE |           | QUEUED |            | RESTORING |         | HOLDING | <--------+
      +------+ <-+  +--> +--------+ <--------- +-----------+         +---------+          |
                 |  |               postponed                             | revoked       |
         drained |  | drained, and wanted again                           v               |
                 |  |                                               +----------+          |
                 +--+---------------------------------------------- | DRAINING | ---------+
                 |  |                                               +----------+
                 |  |                            stopped, continued  |  |  | ^
                 |  |          +---------+ <-------------------------+  |  | | revoked
                 +--+--------- | STOPPED | ---> DRAINING                |  | |
                 |  |          +---------+                 fenced       |  | |
                 |  |          +--------+ <-----------------------------+  | |
                 +--+--------- | FENCED |                                  v | gave up
                               +--------+                           +-------------+
                                                                    | UNDRAINABLE |
                                                                    +-------------+

A tenant that leaves does so from any state, and its bytes are free at once.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Where a tenant stands; its memory may leave the GPU only in IDLE and QUEUED."""

    __hash__ = object.__hash__  # members are compared by identity; Enum's own runs Python code

    IDLE = "idle"
    """no lease, and no wish for one"""
    QUEUED = "queued"
    """in the queue for a lease"""
    RESTORING = "restoring"
    """chosen: room is being made and its bytes are being restored"""
    HOLDING = "holding"
    """has the lease; every byte is resident"""
    DRAINING = "draining"
    """revoked: its last work is finishing"""
    UNDRAINABLE = "undrainable"
    """has its lease back, because its last work waits for threads of its own that need one"""
    STOPPED = "stopped"
    """revoked, and its process is stopped, so that it cannot answer"""
    FENCED = "fenced"
    """revoked, and so late that it gets no lease and nobody waits for it until it answers"""


class Cause(Enum):
    """Why a tenant changes its state."""

    __hash__ = object.__hash__  # members are compared by identity; Enum's own runs Python code

    WANTED = "wanted"
    CHOSEN = "chosen"
    READY = "ready"
    POSTPONED = "postponed"
    """what it needs cannot be freed any more: a victim was pinned, a context came in between"""
    REVOKED = "revoked"
    DRAINED = "drained"
    DRAINED_WANTING = "drained, and wanted again"
    REOPENED = "reopened"
    """its drain makes no progress while a thread stands at the gate: for a moment it goes on"""
    GAVE_UP = "gave up"
    """and that did not help, as often as it was done"""
    STOPPED = "stopped"
    CONTINUED = "continued"
    FENCED = "fenced"


TRANSITIONS: Final[dict[tuple[State, Cause], State]] = {
    (State.IDLE, Cause.WANTED): State.QUEUED,
    (State.QUEUED, Cause.CHOSEN): State.RESTORING,
    (State.RESTORING, Cause.READY): State.HOLDING,
    (State.RESTORING, Cause.POSTPONED): State.QUEUED,
    (State.HOLDING, Cause.REVOKED): State.DRAINING,
    (State.DRAINING, Cause.DRAINED): State.IDLE,
    (State.DRAINING, Cause.DRAINED_WANTING): State.QUEUED,
    (State.DRAINING, Cause.REOPENED): State.HOLDING,
    (State.DRAINING, Cause.GAVE_UP): State.UNDRAINABLE,
    (State.UNDRAINABLE, Cause.REVOKED): State.DRAINING,
    (State.DRAINING, Cause.STOPPED): State.STOPPED,
    (State.STOPPED, Cause.CONTINUED): State.DRAINING,
    (State.STOPPED, Cause.DRAINED): State.IDLE,
    (State.STOPPED, Cause.DRAINED_WANTING): State.QUEUED,
    (State.DRAINING, Cause.FENCED): State.FENCED,
    (State.FENCED, Cause.DRAINED): State.IDLE,
    (State.FENCED, Cause.DRAINED_WANTING): State.QUEUED,
}

WITH_LEASE: Final = frozenset({State.HOLDING, State.UNDRAINABLE})
"""its lease word is open"""
STAYING: Final = frozenset({State.RESTORING, State.HOLDING, State.UNDRAINABLE})
"""The tenant holds or is about to: its memory is on the GPU to stay."""
REVOKED: Final = frozenset({State.DRAINING, State.STOPPED, State.FENCED})
"""its lease word was closed, and it has not answered"""


def after(state: State, cause: Cause) -> State:
    """The state that follows; raises KeyError for a transition that does not exist."""
    return TRANSITIONS[state, cause]
