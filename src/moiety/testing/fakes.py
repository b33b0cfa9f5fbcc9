"""Stand-ins for the outside world."""

from __future__ import annotations

from dataclasses import dataclass, field

from moiety.devices.interface import Device, GpuProcess, Usage
from moiety.devices.telemetry import Telemetry


@dataclass
class FakeDevices:
    """GPUs that exist on paper: set `used` and `processes` to what NVML shall report."""

    devices: list[Device]
    used: dict[int, int] = field(default_factory=dict)
    processes: dict[int, dict[int, int]] = field(default_factory=dict)
    busy: dict[int, float] = field(default_factory=dict)
    """The busy part by pid, on all of its GPUs."""
    sensors: dict[int, Telemetry] = field(default_factory=dict)
    """What the sensors say, by GPU."""
    unreadable: dict[int, str] = field(default_factory=dict)
    driver_version: str = "550.00.00"
    closed: bool = False

    @classmethod
    def of(cls, *total_bytes: int) -> FakeDevices:
        """One GPU for each size given."""
        return cls(
            [
                Device(index, f"GPU-{index:08x}-0000-4000-8000-000000000000", "Paper GPU", size)
                for index, size in enumerate(total_bytes)
            ]
        )

    def inventory(self) -> list[Device]:
        """Every GPU, by index."""
        return list(self.devices)

    def usage(self, index: int) -> Usage:
        """The usage that was set."""
        processes = self.processes.get(index, {})
        used = self.used.get(index, sum(processes.values()))
        return Usage(used_bytes=used, utilisation=None, processes=dict(processes))

    def utilisation(self, index: int) -> float | None:
        """The part of its time in which a GPU worked: that of `usage`."""
        return self.usage(index).utilisation

    def telemetry(self, index: int) -> Telemetry:
        """The sensors that were set; a GPU without them has no value."""
        return self.sensors.get(index, Telemetry())

    def users(self, index: int, since_us: int) -> list[GpuProcess]:
        """The processes that were set."""
        del since_us
        processes = self.processes.get(index, {})
        return [GpuProcess(pid, used, self.busy.get(pid, 0.0)) for pid, used in processes.items()]

    def next_error(self, timeout_s: float) -> tuple[int, int] | None:
        """None: these GPUs have no errors."""
        del timeout_s
        return None

    def close(self) -> None:
        """Set `closed`."""
        self.closed = True
