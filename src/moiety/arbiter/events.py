"""What the arbiter is told: one frozen record for each thing that can happen on a node's GPUs.

A tenant is one process, named by the agent's number for it; a GPU by the agent's index.
Bytes are bytes of GPU memory; times are seconds on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moiety.arbiter.recordable import Recordable
from moiety.arbiter.settings import Settings
from moiety.arbiter.states import Apart
from moiety.model.share import NOTHING_ASKED, Share

EVERY_GPU: Final = -1
"""In place of a GPU, for what concerns all that a process has."""


class Hello(Recordable, frozen=True):
    """A process said hello. It holds no lease, unless `holding` (it outlived its agent).

    `epoch` is that of its last lease; its next lease has a higher one. `resumed`: the process
    outlived its agent, so contexts that it names before `Settled` may exist already. `replaces` is
    the tenant that this process was until its connection broke: the bytes of that tenant count for
    this one until `Attach` reports them anew, or `Detach` reports that they are gone. `fenced`: the
    process has not answered since it was fenced, so its work runs without a lease until it answers.
    `doubted`: the process reports a lease that the agent does not know, so it is told to drain.
    `unproven`: no record of the last agent names the process, so that memory which it reports is
    decided like a request, beyond what it had here until its connection broke.
    """

    tenant: int
    holding: bool = False
    epoch: int = 0
    pinned: bool = False
    resumed: bool = False
    share: Share = NOTHING_ASKED
    name: str = ""
    """The name of the program and its pid, for sentences."""
    uid: int = -1
    """The user that runs the process."""
    replaces: int = 0
    fenced: bool = False
    doubted: bool = False
    unproven: bool = False
    owner: str = ""
    """Whose time it uses: `user UID`, or `namespace NAME`."""
    workload: str = ""
    """The workload that it belongs to; empty: one of its own."""


class GangJoined(Recordable, frozen=True):
    """From now on a process holds together with the others in this gang, or not at all.

    The gang begins once it has `size` members, or with any number of members (0). `begun`: it has
    begun before. `Arbiter.refuse_gang` found that the members fit together.
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
    same `serial` once there is room for it, or by `Refused`. From `allocated_bytes` to `exists` is
    only for a process that outlived its agent or its connection: a context that `exists` is
    counted, never refused. `too_many`: why its user may have no new one now; empty: it may.
    `proven_bytes` and `proven_pinned_bytes` are what the last agent recorded of it, or NVML counts;
    what it says beyond that is decided like a request. None: a record of an older version names
    no bytes, so its own word counts, unless it is `unproven`.
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
    too_many: str = ""
    proven_bytes: int | None = None
    proven_pinned_bytes: int | None = None


class Measured(Recordable, frozen=True):
    """What a process' context really takes on a GPU (NVML), in place of the estimate."""

    tenant: int
    gpu: int
    residue_bytes: int


class Detach(Recordable, frozen=True):
    """A process has no context on a GPU any more; all bytes that it had there are freed."""

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
    """The driver pages these bytes: they count like others while the process holds, and have left
    the GPU when it has drained."""


class DriverOom(Recordable, frozen=True):
    """A process' driver ran out of memory for itself: code, a context, a graph.

    `free_bytes` is what the driver has free now (NVML); None: not known. Answered by `Admitted`
    once up to `bytes` are free, or by `Refused`. It is no allocation: what the driver takes is
    residue, and `Measured` reports how much; until then the room is kept free for a while.
    """

    tenant: int
    gpu: int
    serial: int
    bytes: int
    free_bytes: int | None = None


class Free(Recordable, frozen=True):
    """A process freed `bytes`, of which `resident_bytes` were on the GPU.

    `allowed`: all of them were on the GPU. They are part of the process' credit from now on, and
    `resident_bytes` of them stay on the GPU.
    """

    tenant: int
    gpu: int
    bytes: int
    resident_bytes: int
    pinned: bool = False
    managed: bool = False
    allowed: bool = False


class CreditUsed(Recordable, frozen=True):
    """A process allocated `bytes` of its credit; `spare_bytes` of them were spare before."""

    tenant: int
    gpu: int
    bytes: int
    spare_bytes: int = 0


class CreditReturned(Recordable, frozen=True):
    """A process returned its credit on a GPU, of which `bytes` were left; nothing is spare."""

    tenant: int
    gpu: int
    bytes: int


class PinRequest(Recordable, frozen=True):
    """A process wants `bytes` that it has allocated to stay on the GPU; `call` is the reason.

    With `EVERY_GPU` it wants that of everything that it has and gets. Answered by `Admitted` or
    `Refused` with the same serial. The bytes are freed like bytes that were pinned when they were
    requested.
    """

    tenant: int
    gpu: int
    serial: int
    bytes: int = 0
    call: str = ""


class Unpin(Recordable, frozen=True):
    """`bytes` of a process that were pinned can leave again; `EVERY_GPU`: all but such bytes."""

    tenant: int
    gpu: int
    bytes: int = 0


class ChargeTransferred(Recordable, frozen=True):
    """A process is charged with `bytes` of another process that is gone, or that gave them up.

    The bytes cannot leave the GPU and may exceed the limit. The process does not count them itself.
    """

    tenant: int
    gpu: int
    bytes: int


class ChargeReleased(Recordable, frozen=True):
    """A process no longer has `bytes` that it inherited (`ChargeTransferred`)."""

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
    """The process counted its resident bytes on a GPU (before `Drained`, if it has several)."""

    tenant: int
    gpu: int
    resident_bytes: int


class Drained(Recordable, frozen=True):
    """The process has nothing running any more, as the revoke with this epoch asked.

    `resident_bytes` is its count on `gpu`, the last GPU that it counted.
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


class ContentReply(Recordable, frozen=True):
    """The answer to `ContentQuery`: what a process without a lease has on a GPU, and of it.

    `zero_bytes` are resident and zeros; chunks of them leave first, and nothing of them is kept.
    `host_bytes` are kept in host memory.
    """

    tenant: int
    gpu: int
    zero_bytes: int
    host_bytes: int


class Idle(Recordable, frozen=True):
    """A watched holder has submitted nothing for as long as `SetIdleTimeout` said."""

    tenant: int
    epoch: int


class Busy(Recordable, frozen=True):
    """A holder that had said `Idle` submits again; it is watched no more."""

    tenant: int
    epoch: int


class Pinned(Recordable, frozen=True):
    """From now on nothing of the process can leave the GPU. It happened without a request."""

    tenant: int
    reason: str = ""


class StopChecked(Recordable, frozen=True):
    """The answer to `CheckStopped`: whether a signal, a debugger or a freezer stopped a process."""

    tenant: int
    stopped: bool


class Suspend(Recordable, frozen=True):
    """A process gets no lease until `Resume`, and its memory leaves. Answered by `Suspended`."""

    tenant: int


class Resume(Recordable, frozen=True):
    """A suspended process gets turns again; `refuse_share` found that its share can be kept."""

    tenant: int


class ShareSet(Recordable, frozen=True):
    """The share of a process has changed; `Arbiter.refuse_share` found that it can be promised."""

    tenant: int
    share: Share


class UserLimitsSet(Recordable, frozen=True):
    """What all processes of a user may allocate together on one GPU; replaces all earlier limits.

    `limits` has for each user the bytes and the rule in words, `parts` a part of the GPU's memory.
    Of a user in both, the larger counts.
    """

    limits: Mapping[int, tuple[int, str]]
    parts: Mapping[int, tuple[float, str]] = {}


class GuaranteesSet(Recordable, frozen=True):
    """The parts of each GPU's time that owners are guaranteed; replaces all earlier ones.

    `parts` are by owner. `groups` are by name: the part of the group as a whole, and its owners. An
    owner is in one group at most. What an owner does not use, others use meanwhile.
    """

    parts: Mapping[str, float]
    groups: Mapping[str, tuple[float, tuple[str, ...]]] = {}


class PromiseSet(Recordable, frozen=True):
    """What is kept on a GPU for workloads that use no GPU yet; replaces what was kept there.

    `memory_bytes` is for their data, `residue_bytes` for the first context of each.
    """

    gpu: int
    memory_bytes: int
    residue_bytes: int


class SettingsSet(Recordable, frozen=True):
    """The settings have changed; the host memory for evicted bytes keeps its size."""

    settings: Settings


class ArenaSet(Recordable, frozen=True):
    """The host memory for evicted bytes has a new size; `reason` says why it is smaller.

    No evicted byte is lost.
    """

    arena_bytes: int
    reason: str = ""


class GpuLost(Recordable, frozen=True):
    """A GPU does nothing any more, so no bytes can move: no tenant has to wait for room on it.

    The next call of each process with a context there returns the error.
    """

    gpu: int


class DivisionSet(Recordable, frozen=True):
    """Whether a process takes turns beside others, because its GPUs do not divide time equally."""

    tenant: int
    apart: Apart


class Tick(Recordable, frozen=True):
    """Time has passed: the deadline that `Arbiter.deadline_s` named is here."""


class Settled(Recordable, frozen=True):
    """Processes that outlived the last agent have had time to reconnect: decide from now on."""


Event = (
    Hello | GangJoined | Left | Attach | Measured | Detach | AllocRequest | DriverOom | Free
    | CreditUsed | CreditReturned | PinRequest | Unpin | ChargeTransferred | ChargeReleased
    | LeaseRequest | Restored | Resident | Drained | Evicted | ContentReply | Idle | Busy
    | Pinned | StopChecked | ShareSet | SettingsSet | UserLimitsSet | GuaranteesSet | PromiseSet
    | ArenaSet | GpuLost | DivisionSet | Tick | Settled | Suspend | Resume
)  # fmt: skip
