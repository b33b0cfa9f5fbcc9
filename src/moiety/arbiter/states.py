"""The states of a tenant, with every transition there is.

                 wanted                chosen               ready
      +-----+ ---------> +---------+ ---------> +--------+ ------> +---------+
      | OUT |            | WAITING |            | COMING |         | HOLDING |
      +-----+ <--+  +--> +---------+ <--------- +--------+         +---------+
                 |  |                 postponed                         |
         drained |  | drained, and wanted again                         | revoked
                 |  |                                                   v
                 |  |                                             +----------+
                 +--+---------------------------------------------| DRAINING |
                                                                  +----------+

A tenant that leaves does so from any state, and its bytes are free at once.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Where a tenant stands; its memory may leave the GPU only in OUT and WAITING."""

    OUT = "out"
    """no lease, and no wish for one"""
    WAITING = "waiting"
    """in the queue for a lease"""
    COMING = "coming"
    """chosen: room is being made and its bytes are being restored"""
    HOLDING = "holding"
    """has the lease; every byte is resident"""
    DRAINING = "draining"
    """revoked: its last work is finishing"""


class Cause(Enum):
    """Why a tenant changes its state."""

    WANTED = "wanted"
    CHOSEN = "chosen"
    READY = "ready"
    POSTPONED = "postponed"
    """what it needs cannot be freed any more: a victim was pinned, a context came in between"""
    REVOKED = "revoked"
    DRAINED = "drained"
    DRAINED_WANTING = "drained, and wanted again"


TRANSITIONS: Final[dict[tuple[State, Cause], State]] = {
    (State.OUT, Cause.WANTED): State.WAITING,
    (State.WAITING, Cause.CHOSEN): State.COMING,
    (State.COMING, Cause.READY): State.HOLDING,
    (State.COMING, Cause.POSTPONED): State.WAITING,
    (State.HOLDING, Cause.REVOKED): State.DRAINING,
    (State.DRAINING, Cause.DRAINED): State.OUT,
    (State.DRAINING, Cause.DRAINED_WANTING): State.WAITING,
}


def after(state: State, cause: Cause) -> State:
    """The state that follows; raises KeyError for a transition that does not exist."""
    return TRANSITIONS[state, cause]
