"""What the answers of the control socket consist of: one row for each thing that is shown."""

from __future__ import annotations

import msgspec

from moiety.model.share import NOTHING_ASKED, Share


class ContainerRow(msgspec.Struct, frozen=True):
    """One share for containers in `moiety container ls`."""

    name: str
    uid: int
    share: Share
    spec: str
    folder: str
    """on this machine: what of it is put into containers lies there"""
    pids: list[int] = []
    """of the processes that use GPUs with it, as this machine counts them"""
    containers: list[str] = []
    """the short ids of the containers they run in"""
    gpus: list[str] = []
    pods: list[str] = []
    labels: dict[str, str] = {}
    """as of CreateContainer"""


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
    """why nobody can use it any more"""
    errors: dict[int, float] = {}
    """seconds since the driver last reported each of its errors (XID), also to earlier agents"""


class ProcessRow(msgspec.Struct, frozen=True):
    """One process on one GPU in `moiety ps`; `gpu` is None until it attached one."""

    tenant: int
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
    """threads at the closed gate, summed"""
    waiting_s: float | None
    """since when it waits for its turn"""
    reason: str
    pinned: str
    share: Share = NOTHING_ASKED
    """of its workload"""
    priority: str = "normal"
    received: float = 0.0
    """part of the GPU's time over the last seconds, with the hand-offs that it caused"""
    received_s: float = 0.0
    """the same in its whole life, in GPU-seconds"""
    handoffs_s: float = 0.0
    gang: str = ""
    """of those that hold GPUs together with it"""
    paused: bool = False
    """its --gpu-limit is used up for the moment"""
    evicted_bytes: int = 0
    """by the process itself, on all its GPUs, since it started"""
    restored_bytes: int = 0
    zero_bytes: int = 0
    """left the GPU without being copied, because they were zeros"""
    managed_bytes: int = 0
    """of the allocated ones, those that the driver pages"""
    pinned_bytes: int = 0
    """of the allocated ones, those that never leave: others can see them, say"""
    unknown: dict[str, int] = {}
    """by name: about how often it used what of the driver moiety does not know; the first few"""
    unknown_calls: int = 0
    """all such calls"""
    uid: int = -1
    """whose it is; of other users' programs an agent of all users may not tell the rest"""
    container: str = ""
    """the short id of the container that it runs in"""
    idle_s: float = 0.0
    """how long it has done nothing on a GPU"""
    cost_s: float = 0.0
    """how long others waited within the last minute because it gave the GPU back late, summed"""
    cost: str = ""
    """the same in words"""
    user: str = ""
    pod: str = ""
    labels: dict[str, str] = {}
    """of its share: namespace, pod, container"""


class StrangerRow(msgspec.Struct, frozen=True):
    """One process on one GPU that does not share it."""

    pid: int
    user: str
    program: str
    gpu: int
    used_bytes: int | None
    """as NVML counts; None: it does not tell"""
    busy: float | None
    """part of the time since the last look in which its work ran"""
    worked_s: float
    """how long that was within the last minute, beside programs that share the GPU"""
    since_s: float
    """how long it has been seen"""
    container: str = ""
    runtime: str = ""
    pod: str = ""
    exempt: str = ""
    """by what it is let off"""


class OffenceRow(msgspec.Struct, frozen=True):
    """Something that is wrong with how one process uses one GPU."""

    offence: str
    pid: int
    user: str
    program: str
    gpu: int
    text: str
    since_s: float
    """how long it has gone on"""
    done: list[str]
    """steps that were taken"""
    next: str = ""
    """the next one; empty: there is none"""
    next_s: float = 0.0
    """in how long"""
    tenant: int | None = None
    container: str = ""
    pod: str = ""


class PlannedRow(msgspec.Struct, frozen=True):
    """Something that would be done."""

    after_s: float
    deed: str
    """warn, event, kill or spare"""
    offence: str
    who: str
    text: str


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Something that took time on one GPU, or a moment (end_s == begin_s), of one tenant."""

    kind: str
    """held, draining, evicting, restoring, waiting, growing (it holds and waits for more memory),
    telling (messages are on their way); or joined, left, refused, overdue"""
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
    """Who a tenant is, or was."""

    tenant: int
    pid: int
    program: str
    workload: str
    gang: str = ""


class GpuName(msgspec.Struct, frozen=True, array_like=True):
    """A GPU, and what of it is shared out."""

    gpu: int
    name: str
    capacity_bytes: int
