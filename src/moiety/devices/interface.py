"""The interface to the GPUs of this machine for all other packages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from moiety.devices.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU; `uuid` is NVML's text form, `GPU-` and five groups of hex digits."""

    index: int
    uuid: str
    name: str
    total_bytes: int
    exclusive: bool = False
    """True if its compute mode admits one process only."""
    mig: bool = False
    """True if it is divided into hardware partitions."""
    prohibited: bool = False
    """True if its compute mode admits no process."""
    persistent: bool | None = None
    """True if its driver stays loaded while it is unused; None: unknown."""
    links: tuple[tuple[int, int], ...] = ()
    """The GPUs to which it has NVLink connections, by index, each with the number of links."""
    numa_node: int | None = None
    """The host's NUMA node that is near it; None: there is one only, or it is unknown."""

    @property
    def uuid_bytes(self) -> bytes:
        """The 16 bytes that the CUDA driver gives for the same GPU."""
        return uuid_bytes(self.uuid)


@dataclass(frozen=True, slots=True)
class Usage:
    """How one GPU is used at this moment."""

    used_bytes: int
    utilisation: float | None = None
    """Part of the last moments in which a kernel ran, 0 to 1."""
    processes: dict[int, int] = field(default_factory=dict)
    """Bytes by pid, as far as the driver tells."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on one GPU; its pid is the host's."""

    pid: int
    used_bytes: int | None
    """Bytes that it uses; None: the driver does not report them."""
    busy: float | None = None
    """Part of the time since the given moment in which its work ran, 0 to 1."""
    of_mps: bool = False
    """True if its work comes through NVIDIA's MPS."""


class Devices(Protocol):
    """The GPUs of one machine."""

    @property
    def driver_version(self) -> str:
        """Of the kernel driver, such as 550.54.15."""

    unreadable: dict[int, str]
    """By index: why a GPU is not in the last `inventory`."""

    def inventory(self) -> list[Device]:
        """Every GPU that answers, by index."""

    def usage(self, index: int) -> Usage:
        """One GPU now; may take milliseconds."""

    def utilisation(self, index: int) -> float | None:
        """The part of the last moments in which one GPU worked; None: it does not say."""

    def telemetry(self, index: int) -> Telemetry:
        """The sensors of one GPU now; may take milliseconds."""

    def users(self, index: int, since_us: int) -> list[GpuProcess]:
        """Every process that computes on a GPU, and its work since `since_us` (since 1970)."""

    def next_error(self, timeout_s: float) -> tuple[int, int] | None:
        """The index of the next GPU with an error, and the error (XID); None after the timeout."""

    def close(self) -> None:
        """Close the driver's library."""


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`; raises ValueError."""
    digits = text.split("-", 1)[1] if text.startswith(("GPU-", "MIG-")) else text
    found = bytes.fromhex(digits.replace("-", ""))
    if len(found) != 16:
        raise ValueError(f"{text!r} is no GPU's UUID")
    return found
