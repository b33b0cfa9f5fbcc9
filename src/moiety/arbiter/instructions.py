"""What the arbiter wants done: one frozen record for each thing that the agent can carry out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Admitted:
    """Answer the request with this serial: yes, and the room is there now."""

    tenant: int
    gpu: int
    serial: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer the request with this serial: no.

    `code` is one of "limit", "capacity"; `text` says why with numbers and what to try.
    """

    tenant: int
    gpu: int
    serial: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Room:
    """Tell the process that it may make this many bytes more resident."""

    tenant: int
    gpu: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Grant:
    """Open the process' lease word with this epoch, then tell it."""

    tenant: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Close the process' lease word with this epoch, then tell it to drain."""

    tenant: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Evict:
    """Tell the process (it holds no lease) to move out this many bytes."""

    tenant: int
    gpu: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Watch:
    """Ask a holder to tell when it has submitted nothing for `idle_s`; 0 ends the watch."""

    tenant: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class Overdue:
    """The process did not drain within the revoke deadline: report it, kill it if `kill`."""

    tenant: int
    waited_s: float
    kill: bool


Instruction = Admitted | Refused | Room | Grant | Revoke | Evict | Watch | Overdue
