"""What the arbiter is told: one frozen record for each thing that can happen on a node's GPUs.

A tenant is one process, named by the agent's number for it; a GPU by the agent's index.
Bytes are bytes of GPU memory; times are seconds on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from moiety.arbiter.recordable import Recordable
from moiety.arbiter.settings import Settings
from moiety.model.share import NOTHING_ASKED, Share


class Hello(Recordable, frozen=True):
    """A process said hello. It holds no lease, unless `holding` (it outlived its agent).

    `epoch` is that of its last lease; the next one it gets has a higher one. `resumed` says that
    it outlived its agent, so that contexts it speaks of before `Settled` may be there already.
    `replaces` is the tenant that the same process was until its connection broke: what that one
    has is this one's until `Attach` says it anew, or `Detach` that it is gone. `fenced`: it has
    not answered since it was, so its work runs without a lease until it has. `doubted`: it says
    that it holds a lease and nobody knows of one: it is told to drain.
    """

    tenant: int
    holding: bool = False
    epoch: int = 0
    pinned: bool = False
    resumed: bool = False
    share: Share = NOTHING_ASKED
    name: str = ""
    """how people know it; for sentences"""
    uid: int = -1
    """the user whose it is"""
    replaces: int = 0
    fenced: bool = False
    doubted: bool = False


class GangJoined(Recordable, frozen=True):
    """From now on a process holds together with the others in this gang, or not at all.

    The gang begins once `size` are in it, or with whoever there is (0). `begun`: it has begun
    before. `Arbiter.refuse_gang` said that they fit together.
    """

    tenant: int
    gang: str
    size: int = 0
    begun: bool = False


class Left(Recordable, frozen=True):
    """A process is gone, and its memory with it: any state, any moment."""

    tenant: int


class Attach(Recordable, frozen=True):
    """A process is about to create its first context on a GPU.

    `residue_bytes` is what the context is expected to take. Answered by `Admitted` with the
    same `serial` once there is room for it, or by `Refused`. The last five are only for a process
    that outlived its agent or its connection: what `exists` is counted and not refused.
    """

    tenant: int
    gpu: int
    serial: int
    residue_bytes: int
    limit_bytes: int
    allocated_bytes: int = 0
    resident_bytes: int = 0
    pinned_bytes: int = 0
    managed_bytes: int = 0
    exists: bool = False


class Measured(Recordable, frozen=True):
    """What a process' context really takes on a GPU (NVML), in place of the estimate."""

    tenant: int
    gpu: int
    residue_bytes: int


class Detach(Recordable, frozen=True):
    """A process has no context on a GPU any more; whatever it had there is freed."""

    tenant: int
    gpu: int


class AllocRequest(Recordable, frozen=True):
    """A process wants to allocate; answered by `Admitted` or `Refused` with the same serial."""

    tenant: int
    gpu: int
    serial: int
    bytes: int
    pinned: bool = False
    managed: bool = False
    """the driver pages them: they are counted like others while the process holds, and are gone
    from the GPU when it has drained"""


class DriverOom(Recordable, frozen=True):
    """A process' driver ran out of memory for itself: code, a context, a graph.

    `free_bytes` is what the driver has free now (NVML); None: not known. Answered by `Admitted`
    once up to `bytes` are free, or by `Refused`. It is no allocation: what was taken of it is
    residue, and `Measured` tells how much; until then the room is kept for a while.
    """

    tenant: int
    gpu: int
    serial: int
    bytes: int
    free_bytes: int | None = None


class Free(Recordable, frozen=True):
    """A process freed `bytes`, of which `resident_bytes` were on the GPU.

    `allowed`: all of them were, they are part of its allowance from now on, and `resident_bytes` of
    them still are there.
    """

    tenant: int
    gpu: int
    bytes: int
    resident_bytes: int
    pinned: bool = False
    managed: bool = False
    allowed: bool = False


class CreditUsed(Recordable, frozen=True):
    """A process allocated `bytes` of its allowance; `spare_bytes` less are spare now."""

    tenant: int
    gpu: int
    bytes: int
    spare_bytes: int = 0


class CreditReturned(Recordable, frozen=True):
    """A process gave its allowance on a GPU back, of which `bytes` were left; nothing is spare."""

    tenant: int
    gpu: int
    bytes: int


class PinBytes(Recordable, frozen=True):
    """So many `bytes` of what a process has can not leave from now on: others can see them.

    Freed like bytes that were pinned when they were asked for.
    """

    tenant: int
    gpu: int
    bytes: int


class ChargeTransferred(Recordable, frozen=True):
    """A process has `bytes` of another that is gone, or gave them up: it is charged with them now.

    They cannot leave, it may be more than its limit, and the process does not count them.
    """

    tenant: int
    gpu: int
    bytes: int


class ChargeReleased(Recordable, frozen=True):
    """A process has no longer what it inherited, or some of it."""

    tenant: int
    gpu: int
    bytes: int


class LeaseRequest(Recordable, frozen=True):
    """A thread of the process stands at the closed gate."""

    tenant: int


class Restored(Recordable, frozen=True):
    """Every byte of the process is resident."""

    tenant: int


class Resident(Recordable, frozen=True):
    """The process counted how much of it is on a GPU (before `Drained`, if it has several)."""

    tenant: int
    gpu: int
    resident_bytes: int


class Drained(Recordable, frozen=True):
    """The process has nothing running any more, as the revoke with this epoch asked.

    It has counted how much of it is on this GPU, the last one of those that it uses.
    """

    tenant: int
    epoch: int
    gpu: int | None = None
    resident_bytes: int = 0


class Evicted(Recordable, frozen=True):
    """A step of an `Evict` order was carried out; `last` ends the order, `failed` cut it short."""

    tenant: int
    gpu: int
    bytes: int
    resident_bytes: int
    last: bool = False
    failed: bool = False


class Idle(Recordable, frozen=True):
    """A watched holder has submitted nothing for as long as `SetIdleTimeout` said."""

    tenant: int
    epoch: int


class Busy(Recordable, frozen=True):
    """A holder that had said `Idle` submits again; it is watched no more."""

    tenant: int
    epoch: int


class Pinned(Recordable, frozen=True):
    """From now on nothing of the process can leave the GPU."""

    tenant: int
    reason: str = ""


class StopChecked(Recordable, frozen=True):
    """The answer to `CheckStopped`: whether a signal, a debugger or a freezer stopped a process."""

    tenant: int
    stopped: bool


class ShareSet(Recordable, frozen=True):
    """What a process is promised has changed; `Arbiter.refuse_share` said that it can be."""

    tenant: int
    share: Share


class UserLimitsSet(Recordable, frozen=True):
    """What all processes of a user may allocate together on one GPU; instead of what held before.

    By user: how much, and the rule in words.
    """

    limits: Mapping[int, tuple[int, str]]


class SettingsSet(Recordable, frozen=True):
    """How the arbiter decides has changed; the host memory for evicted bytes stays what it is."""

    settings: Settings


class ArenaSet(Recordable, frozen=True):
    """Host memory for evicted bytes became less, for this reason, or more; nothing held is lost."""

    arena_bytes: int
    reason: str = ""


class GpuLost(Recordable, frozen=True):
    """A GPU does nothing any more, so nothing can be moved: nobody has to wait for room on it.

    Whoever has a context there is told so by its own next call.
    """

    gpu: int


class Tick(Recordable, frozen=True):
    """Time has passed: the deadline that `Arbiter.deadline_s` named is here."""


class Settled(Recordable, frozen=True):
    """Whoever outlived the last agent has reconnected, or had the time to: decide from now on."""


Event = (
    Hello
    | GangJoined
    | Left
    | Attach
    | Measured
    | Detach
    | AllocRequest
    | DriverOom
    | Free
    | CreditUsed
    | CreditReturned
    | PinBytes
    | ChargeTransferred
    | ChargeReleased
    | LeaseRequest
    | Restored
    | Resident
    | Drained
    | Evicted
    | Idle
    | Busy
    | Pinned
    | StopChecked
    | ShareSet
    | SettingsSet
    | UserLimitsSet
    | ArenaSet
    | GpuLost
    | Tick
    | Settled
)
