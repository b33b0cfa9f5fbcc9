"""The GPUs of one agent, by index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moiety.arbiter.settings import GpuSpec
from moiety.devices.budget import GpuBudget
from moiety.devices.interface import Device
from moiety.model.share import Share


@dataclass(slots=True)
class ManagedGpu:
    """One GPU that this agent manages."""

    device: Device
    budget: GpuBudget
    residue_bytes: int
    """Expected size of the next context: the last measurement."""
    lost: str = ""
    """Why the GPU is gone; empty while it works."""
    errors: dict[int, float] = field(default_factory=dict)
    """By XID: when the driver last reported it, in seconds on the loop's clock."""

    @property
    def spec(self) -> GpuSpec:
        """The GPU as the arbiter knows it."""
        return GpuSpec(
            gpu=self.device.index,
            total_bytes=self.budget.total_bytes - self.budget.headroom_bytes,
            capacity_bytes=self.budget.capacity_bytes,
        )

    def limit_bytes(self, share: Share) -> int:
        """Return the most that a process with this share may allocate here."""
        capacity = self.budget.capacity_bytes
        limit = share.memory_limit_bytes
        return capacity if limit is None else min(limit, capacity)


Gpus = Mapping[int, ManagedGpu]
"""GPUs by index."""


def index_of(gpus: Gpus, uuid: bytes) -> int | None:
    """Return the index of the GPU with this UUID; None if the agent does not manage it."""
    return next((index for index, gpu in gpus.items() if gpu.device.uuid_bytes == uuid), None)
