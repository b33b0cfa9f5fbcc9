"""The rows of answers on the control socket: one row for each thing that is shown."""

from __future__ import annotations

import msgspec

from moiety.devices.telemetry import Telemetry
from moiety.model.share import NOTHING_ASKED, Share


class CardName(msgspec.Struct, frozen=True):
    """One of the GPUs that were chosen for a workload."""

    gpu: int
    uuid: str
    name: str


class ContainerRow(msgspec.Struct, frozen=True):
    """One share for containers in `moiety container ls`."""

    name: str
    uid: int
    share: Share
    spec: str
    folder: str
    """Folder on this machine whose files are put into containers."""
    pids: list[int] = []
    """Processes that use GPUs with it, in the host's PID namespace."""
    containers: list[str] = []
    """Short ids of the containers in which they run."""
    gpus: list[str] = []
    """The UUIDs of the only GPUs that its processes may use; empty: all."""
    pods: list[str] = []
    labels: dict[str, str] = {}
    """The labels of CreateContainer."""
    cards: list[CardName] = []
    """Those of `gpus` that this agent has now."""


class GpuUser(msgspec.Struct, frozen=True):
    """One workload that is on a GPU, or for which it is kept."""

    workload: str
    program: str
    user: str
    pids: list[int]
    """Its processes that use this GPU; empty: the GPU is kept for it."""
    share: Share
    suspended: bool = False
    """Whether it is suspended: what its share promises does not count then."""


class GpuUse(msgspec.Struct, frozen=True):
    """One GPU in `moiety gpu ls`."""

    gpu: int
    uuid: str
    name: str
    drained: bool
    lost: str
    capacity_bytes: int
    promised_gpu: float
    """The part of its time that is guaranteed to workloads."""
    promised_bytes: int
    """The part of its memory that is guaranteed to workloads."""
    users: list[GpuUser]
    others: int = 0
    """Number of workloads of other users that this user does not see."""


class GpuRow(msgspec.Struct, frozen=True):
    """One GPU in `moiety status`."""

    gpu: int
    uuid: str
    name: str
    total_bytes: int
    used_bytes: int | None
    capacity_bytes: int
    resident_bytes: int
    allocated_bytes: int
    residue_bytes: int
    free_bytes: int
    utilisation: float | None
    holders: list[int]
    waiting: list[int]
    lost: str = ""
    """Why the GPU cannot be used any more; empty while it can."""
    errors: dict[int, float] = {}
    """By XID: seconds since the driver last reported it, also to earlier agents."""
    sensors: Telemetry = Telemetry()
    slowed_by: list[str] = []
    """The reasons of the sensors' `clock_events` in words, without those of an idle GPU."""
    history: dict[str, list[float | None]] = {}
    """By name: the mean of each of the last 60 minutes, oldest first; busy and memory are parts."""
    drained: bool = False
    """True while it gets no new workloads."""
    suspended: list[int] = []
    """The tenants on it that are suspended."""


class ProcessRow(msgspec.Struct, frozen=True):
    """One process on one GPU in `moiety ps`; `gpu` is None until it attached one."""

    tenant: int
    """Its number; 0: it is no tenant (other_rows.py)."""
    pid: int
    program: str
    workload: str
    gpu: int | None
    state: str
    allocated_bytes: int
    resident_bytes: int
    residue_bytes: int
    limit_bytes: int | None
    handoffs: int
    held_s: float
    waited_s: float
    """Time that its threads waited at the closed gate, summed."""
    waiting_s: float | None
    """How long it has waited for its turn; None: it does not wait."""
    reason: str
    pinned: str
    share: Share = NOTHING_ASKED
    """The share of its workload."""
    priority: str = "normal"
    received: float = 0.0
    """Part of the GPU's time that its work had over the last seconds, without hand-offs."""
    received_s: float = 0.0
    """GPU-seconds that it had in its whole life, including the hand-offs that it caused."""
    handoffs_s: float = 0.0
    gang: str = ""
    """The gang with which it holds GPUs; empty: none."""
    paused: bool = False
    """True while its --gpu-limit is used up."""
    guaranteed: float = 0.0
    """The part of a GPU's time that its user, group or namespace is guaranteed; 0: nothing."""
    evicted_bytes: int = 0
    """Bytes that the process moved to the host, on all its GPUs, since it started."""
    restored_bytes: int = 0
    zero_bytes: int = 0
    """Bytes that left the GPU without a copy, because they were zeros."""
    managed_bytes: int = 0
    """Allocated bytes that the driver pages (managed memory)."""
    oversubscribed_bytes: int = 0
    """What of them the GPU has no room for: the driver keeps as many bytes in host memory."""
    pinned_bytes: int = 0
    """Allocated bytes that never leave the GPU, for instance because others can see them."""
    pins: dict[str, int] = {}
    """By call: how many bytes it made stay on a GPU, while such bytes are left."""
    unknown: dict[str, int] = {}
    """By name: about how often it called driver functions that moiety does not know."""
    unknown_calls: int = 0
    """The number of all such calls."""
    peak_bytes: int = 0
    """The most that was on this GPU at one time, since this agent knows it."""
    uid: int = -1
    """Its user; an agent of all users may hide the rest from other users."""
    container: str = ""
    """Short id of the container in which it runs."""
    idle_s: float = 0.0
    """How long it has done nothing on a GPU."""
    cost_s: float = 0.0
    """Time that others waited within the last minute because it gave the GPU back late, summed."""
    cost: str = ""
    """The same in words."""
    user: str = ""
    pod: str = ""
    labels: dict[str, str] = {}
    """Labels of its share: namespace, pod, container."""
    host_bytes: int = 0
    """What of its evicted bytes is in host memory now: zeros are not."""


class WaiterRow(msgspec.Struct, frozen=True):
    """One `moiety run --wait` that waits until GPUs have room."""

    place: int
    """In the queue; 1 is the next."""
    pid: int
    uid: int
    user: str
    program: str
    share: Share
    gpus: int
    """How many GPUs it asks for."""
    waited_s: float
    reason: str


class StrangerRow(msgspec.Struct, frozen=True):
    """One process that uses one GPU without moiety."""

    pid: int
    user: str
    program: str
    gpu: int
    used_bytes: int | None
    """Bytes that NVML counts; None: it does not tell."""
    busy: float | None
    """Part of the time since the last look in which its work ran."""
    worked_s: float
    """How long its work ran within the last minute, beside programs that share the GPU."""
    since_s: float
    """How long it has been seen."""
    container: str = ""
    runtime: str = ""
    pod: str = ""
    exempt: str = ""
    """The exemption that applies to it; empty: none."""


class OffenceRow(msgspec.Struct, frozen=True):
    """Something that is wrong with how one process uses one GPU."""

    offence: str
    pid: int
    user: str
    program: str
    gpu: int
    text: str
    since_s: float
    """How long it has gone on."""
    done: list[str]
    """Steps that were taken."""
    next: str = ""
    """The next step; empty: there is none."""
    next_s: float = 0.0
    """Seconds until the next step."""
    tenant: int | None = None
    container: str = ""
    pod: str = ""


class UserLimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one user may have; None: this is not limited."""

    gpu: float | None = None
    """Of each GPU's time, for all its workloads there together."""
    memory_bytes: int | None = None
    """Of each GPU's memory, likewise; with `memory_part` the larger of both."""
    memory_part: float | None = None
    workloads: int | None = None
    """How many at one time."""
    gpus: list[int] | None = None
    """Indices of the only GPUs."""
    priority: int | None = None
    """The highest."""
    where: dict[str, str] = {}
    """By field: the place of its rule."""
    has: list[str] = []
    """The names of the workloads that count as the user's now."""


class PlannedRow(msgspec.Struct, frozen=True):
    """Something that would be done."""

    after_s: float
    deed: str
    """`warn`, `event`, `kill` or `spare`."""
    offence: str
    who: str
    text: str


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Something that took time on one GPU, or a moment (end_s == begin_s), of one tenant."""

    kind: str
    """Held, draining, evicting, restoring, waiting, growing (it holds and waits for more memory),
    telling (messages are on their way); or joined, left, refused, overdue."""
    tenant: int
    gpu: int
    begin_s: float
    end_s: float
    bytes: int = 0
    detail: str = ""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """How much of a tenant was on a GPU from a moment on."""

    at_s: float
    tenant: int
    gpu: int
    resident_bytes: int


class TenantName(msgspec.Struct, frozen=True, array_like=True):
    """The process, program and workload of a tenant, also after it ended."""

    tenant: int
    pid: int
    program: str
    workload: str
    gang: str = ""


class GpuName(msgspec.Struct, frozen=True, array_like=True):
    """A GPU, and the bytes of it that are shared out."""

    gpu: int
    name: str
    capacity_bytes: int
