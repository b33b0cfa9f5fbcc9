"""The states of a tenant, and all transitions between them.

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

                 suspended                resumed
    IDLE, QUEUED --------> +-----------+ --------> IDLE
                           | SUSPENDED |
                           +-----------+

A tenant that leaves does so from any state, and its bytes are free at once.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final


class State(Enum):
    """The state of a tenant; its memory may leave in IDLE, QUEUED and SUSPENDED only."""

    __hash__ = object.__hash__  # members are compared by identity; Enum's own runs Python code

    IDLE = "idle"
    """It has no lease and wants none."""
    QUEUED = "queued"
    """It is in the queue for a lease."""
    RESTORING = "restoring"
    """It is chosen: room is being made, and its bytes are being restored."""
    HOLDING = "holding"
    """It has the lease; every byte is resident."""
    DRAINING = "draining"
    """Its lease is revoked, and its last work is finishing."""
    UNDRAINABLE = "undrainable"
    """It has its lease back, because its last work waits for its own threads that need one."""
    STOPPED = "stopped"
    """Its lease is revoked, and its process is stopped, so it cannot answer."""
    FENCED = "fenced"
    """It is overdue: until it answers, it gets no lease, and no other tenant waits for it."""
    SUSPENDED = "suspended"
    """It gets no lease until it is resumed, and all of its memory that can leave does."""


class Apart(StrEnum):
    """With which tenants of its class a tenant does not hold a GPU at the same time."""

    NO = ""
    OF_MPS = "mps"
    """With other clients of NVIDIA's MPS: their kernels run at the same time, as they come."""
    OF_ALL = "all"
    """With all of them: the GPU gives it more than an equal part of the time."""


class Cause(Enum):
    """Why a tenant changes its state."""

    __hash__ = object.__hash__  # members are compared by identity; Enum's own runs Python code

    WANTED = "wanted"
    CHOSEN = "chosen"
    READY = "ready"
    POSTPONED = "postponed"
    """Its room cannot be made any more (a victim was pinned, or a context came in between), or it
    did not say in time that its bytes are restored."""
    REVOKED = "revoked"
    DRAINED = "drained"
    DRAINED_WANTING = "drained, and wanted again"
    REOPENED = "reopened"
    """Its drain makes no progress while a thread stands at the gate: it gets a moment's lease."""
    GAVE_UP = "gave up"
    """Its lease was reopened as often as allowed, and it still does not drain."""
    STOPPED = "stopped"
    CONTINUED = "continued"
    FENCED = "fenced"
    SUSPENDED = "suspended"
    RESUMED = "resumed"


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
    (State.IDLE, Cause.SUSPENDED): State.SUSPENDED,
    (State.QUEUED, Cause.SUSPENDED): State.SUSPENDED,
    (State.SUSPENDED, Cause.RESUMED): State.IDLE,
}

WITH_LEASE: Final = frozenset({State.HOLDING, State.UNDRAINABLE})
"""The tenant's lease word is open."""
STAYING: Final = frozenset({State.RESTORING, State.HOLDING, State.UNDRAINABLE})
"""The tenant holds, or is about to: its memory stays on the GPU."""
RESTING: Final = frozenset({State.IDLE, State.SUSPENDED})
"""The tenant wants no time of a GPU."""
REVOKED: Final = frozenset({State.DRAINING, State.STOPPED, State.FENCED})
"""The tenant's lease word was closed, and the tenant has not answered."""


def after(state: State, cause: Cause) -> State:
    """The state that follows; raises KeyError for a transition that does not exist."""
    return TRANSITIONS[state, cause]
