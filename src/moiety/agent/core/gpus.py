"""The GPUs of one agent, by index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moiety.agent.system.event_loop import Timer
from moiety.arbiter.settings import GpuSpec
from moiety.devices.budget import GpuBudget
from moiety.devices.interface import Device
from moiety.model.share import Share


@dataclass(frozen=True, slots=True)
class MeasuredContext:
    """What NVML counted for a context of a living process of this user."""

    uid: int
    residue_bytes: int


@dataclass(frozen=True, slots=True)
class AnnouncedContext:
    """A context that a process of this user may make; `timer` has NVML asked for it."""

    account: int
    timer: Timer


@dataclass(slots=True)
class ManagedGpu:
    """One GPU that this agent manages."""

    device: Device
    budget: GpuBudget
    lost: str = ""
    """Why the GPU is gone; empty while it works."""
    is_drained: bool = False
    """True while it gets no new workloads."""
    errors: dict[int, float] = field(default_factory=dict)
    """By XID: when the driver last reported it, in seconds on the loop's clock."""
    contexts: dict[int, MeasuredContext] = field(default_factory=dict)
    """By tenant: its context as NVML measured it, the newest last."""
    announced: dict[int, AnnouncedContext] = field(default_factory=dict)
    """By tenant: contexts that were announced, and that NVML has not named."""

    @property
    def spec(self) -> GpuSpec:
        """The GPU as the arbiter knows it."""
        return GpuSpec(
            gpu=self.device.index,
            total_bytes=self.budget.total_bytes - self.budget.headroom_bytes,
            capacity_bytes=self.budget.capacity_bytes,
        )

    def expected_residue_bytes(self, uid: int) -> int:
        """Return the expected size of the next context of a user, in bytes.

        It is the last measurement of that user's living processes, else the estimate. Memory that a
        process has and does not report looks like a part of its context: so no process of another
        user changes what is expected of this one.
        """
        own = (each.residue_bytes for each in reversed(self.contexts.values()) if each.uid == uid)
        return next(own, self.budget.residue_bytes)

    def announce(self, tenant: int, account: int, timer: Timer) -> None:
        """Note that a process that counts as this user's may make a context."""
        self.announced[tenant] = AnnouncedContext(account, timer)

    def end_announcement(self, tenant: int) -> None:
        """The context is there, or will not be made."""
        if found := self.announced.pop(tenant, None):
            found.timer.cancel()

    def refuse_announced(self, uid: int, account: int) -> str:
        """Why a user may announce no further context now; empty if it may.

        Room is kept for each, so one user's together take half of the GPU at most. `account` is the
        user whose limits count the process.
        """
        number = sum(each.account == account for each in self.announced.values())
        together = (number + 1) * self.expected_residue_bytes(uid)
        if not number or together <= self.budget.total_bytes // 2:
            return ""
        return (
            f"{number} programs of this user have announced a context on GPU {self.device.index} "
            f"and made none yet; try again in a moment"
        )

    def limit_bytes(self, share: Share) -> int:
        """Return the most that a process with this share may allocate here."""
        return share.limit_bytes(self.budget.capacity_bytes)


Gpus = Mapping[int, ManagedGpu]
"""GPUs by index."""


def index_of(gpus: Gpus, uuid: bytes) -> int | None:
    """Return the index of the GPU with this UUID; None if the agent does not manage it."""
    return next((index for index, gpu in gpus.items() if gpu.device.uuid_bytes == uuid), None)
