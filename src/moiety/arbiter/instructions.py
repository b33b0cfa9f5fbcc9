"""What the arbiter wants done: one frozen record for each thing that the agent can carry out."""

from __future__ import annotations

from typing import Final

from moiety.arbiter.recordable import Recordable
from moiety.arbiter.states import State

PINNED: Final = "pinned"
"""In place of a state, in `Overdue`: memory that was pinned without a request shuts others out."""


class Admitted(Recordable, frozen=True):
    """Answer the request with this serial: yes, and the room is there now."""

    tenant: int
    gpu: int
    serial: int


class Refused(Recordable, frozen=True):
    """Answer the request with this serial: no.

    `code` is one of "limit", "capacity", "gpu"; `text` says why with numbers and what to try.
    """

    tenant: int
    gpu: int
    serial: int
    code: str
    text: str


class RestoreBudget(Recordable, frozen=True):
    """Tell the process that it may make this many bytes more resident.

    Room adds up until the next `Grant`, or `Evict` on that GPU, which void what was not used of
    it. It is never given while an `Evict` is under way. After it, the process says `Restored` as
    soon as all bytes that it knows of are resident on all its GPUs, because it restored or freed
    the last of the others; and again for each later `RestoreBudget`.
    """

    tenant: int
    gpu: int
    bytes: int


class Grant(Recordable, frozen=True):
    """Open the process' lease word with this epoch, then tell it."""

    tenant: int
    epoch: int


class Revoke(Recordable, frozen=True):
    """Close the process' lease word with this epoch, then tell it to drain."""

    tenant: int
    epoch: int


class AllowOne(Recordable, frozen=True):
    """Let one thread of the process that stands at the closed gate pass it for one call.

    It has answered the revoke with this epoch, and answers it again once that call's work is done;
    until then nothing of it leaves. A thread at the gate after that says `LeaseRequest` again.
    """

    tenant: int
    epoch: int


class Evict(Recordable, frozen=True):
    """Tell the process (it holds no lease) to move out this many bytes.

    Whole chunks, so it may be more. It ends with `Evicted(last=True)`, also if less was there.
    No `Grant` and no `RestoreBudget` come before that. Room on that GPU that was not used is void.
    """

    tenant: int
    gpu: int
    bytes: int


class ContentQuery(Recordable, frozen=True):
    """Ask a process, which holds no lease, what of its bytes on a GPU is zeros.

    It answers with `ContentReply`. No `Grant` and no `RestoreBudget` come before that.
    """

    tenant: int
    gpu: int


class HostShort(Recordable, frozen=True):
    """The host has no room for data that must leave before the process' turn: `text` says why.

    `kill`: end the process; else it waits, and this is repeated each time that it was tried.
    """

    tenant: int
    text: str
    kill: bool = False


class SetIdleTimeout(Recordable, frozen=True):
    """Ask a holder to report when it has submitted nothing for `idle_s`; 0 ends the watch.

    It answers with `Idle`, and with `Busy` once it submits again: that ends the watch too, and so
    does `Revoke`. A new one replaces the last.
    """

    tenant: int
    idle_s: float


class SetQueueDepth(Recordable, frozen=True):
    """Have a process keep no more than `queue_s` of unfinished work submitted; 0: any amount.

    It holds until another one comes; a process begins without a bound, also with a new agent.
    """

    tenant: int
    queue_s: float


class CreditGrant(Recordable, frozen=True):
    """Let the process allocate `bytes` more without a request: it reports their use (`CreditUsed`).

    The bytes count as allocated and resident from now on. Until its credit is `most_bytes`, what
    the process frees becomes part of it (`Free.allowed`), and may stay on the GPU. The process
    returns what is left, with `CreditReturned`: when it is told to, when it has not used it for a
    moment, and before `Drained`.
    """

    tenant: int
    gpu: int
    bytes: int
    most_bytes: int


class CreditRevoke(Recordable, frozen=True):
    """Have the process return its credit on a GPU: answered by `CreditReturned`."""

    tenant: int
    gpu: int


class Overdue(Recordable, frozen=True):
    """The process did not do what it was told within the deadline: report it, kill it if `kill`.

    It was told to drain, or to move memory out, or there is room and it does not restore.
    Repeated every deadline until it answers. `state` is the tenant's as of now, or PINNED.
    """

    tenant: int
    waited_s: float
    state: str
    kill: bool = False


class CheckStopped(Recordable, frozen=True):
    """Find out whether a process that is slow to answer is stopped; answered by `StopChecked`."""

    tenant: int


class Suspended(Recordable, frozen=True):
    """Write down that a process is suspended, and that nothing more of it can leave its GPUs.

    `staying_bytes` of its data are still there, on all GPUs together. It is said once.
    """

    tenant: int
    staying_bytes: int


class StateChanged(Recordable, frozen=True):
    """Write down that a tenant's stay in `before` ends now, on these GPUs; it began at `since_s`.

    `after` is the state that follows; None if the tenant has left, or does not use these GPUs any
    more. It comes before every instruction that follows from the change, except `Grant` and
    `Revoke`, because a program waits for these.
    """

    tenant: int
    gpus: tuple[int, ...]
    before: State
    since_s: float
    after: State | None = None


Instruction = (
    Admitted
    | Refused
    | RestoreBudget
    | Grant
    | Revoke
    | AllowOne
    | Evict
    | ContentQuery
    | HostShort
    | SetIdleTimeout
    | SetQueueDepth
    | CreditGrant
    | CreditRevoke
    | Overdue
    | CheckStopped
    | StateChanged
    | Suspended
)
