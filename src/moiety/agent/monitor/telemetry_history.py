"""The sensors of the GPUs over the last hour, in memory of a fixed size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.event_loop import EventLoop, Timer
from moiety.arbiter.machine import Arbiter
from moiety.devices.interface import Devices
from moiety.devices.telemetry import Telemetry

SLOT_S: Final = 60.0
"""Seconds that one value of the history stands for."""
SLOTS: Final = 60
EVERY_S: Final = 15.0
"""Seconds between two readings while no command asks."""
FRESH_S: Final = 3.0
"""A reading is not older than this when a command asks."""
WAITING_MAX: Final = 64
"""Most commands that wait for one reading; of more, the first ones time out."""
SERIES: Final = ("busy", "memory", "temperature_c", "power_w")
"""What is kept: parts of 1 of the GPU's time and capacity, degrees Celsius, watts."""

Readings = Mapping[int, tuple[Telemetry, float | None]]
"""By GPU: its sensors, and the part of the last moments in which it was busy."""


@dataclass(slots=True)
class Series:
    """One value over the last hour: the mean of each minute, None where there was no reading."""

    means: list[float | None] = field(default_factory=lambda: [None] * SLOTS)
    slot: int = 0
    count: int = 0

    def add(self, now_s: float, value: float | None) -> None:
        """Take in a reading; None: this GPU does not have the value."""
        self._advance(now_s)
        if value is None:
            return
        at = self.slot % SLOTS
        self.count += 1
        before = self.means[at] or 0.0
        self.means[at] = before + (value - before) / self.count

    def read(self, now_s: float) -> list[float | None]:
        """Return the means, oldest first."""
        self._advance(now_s)
        at = self.slot % SLOTS + 1
        return [None if m is None else round(m, 3) for m in self.means[at:] + self.means[:at]]

    def _advance(self, now_s: float) -> None:
        slot = int(now_s / SLOT_S)
        for passed in range(max(self.slot + 1, slot - SLOTS + 1), slot + 1):
            self.means[passed % SLOTS] = None
            self.count = 0
        self.slot = max(slot, self.slot)


class TelemetryHistory:
    """Reads the sensors in the thread that talks to NVML; begins with `start`."""

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        devices: Devices,
        *,
        probe: GpuProbe,
        gpus: Gpus,
        arbiter: Arbiter,
    ) -> None:
        self.latest: dict[int, Telemetry] = {}
        """By GPU: the last reading."""
        self._runtime = runtime
        self._loop = loop
        self._devices = devices
        self._probe = probe
        self._gpus = gpus
        self._arbiter = arbiter
        self._series = {gpu: {name: Series() for name in SERIES} for gpu in gpus}
        self._read_s = float("-inf")
        self._is_reading = False
        self._unreadable: set[int] = set()
        """GPUs that did not answer last; only NVML's thread uses it."""
        self._waiting: deque[Callable[[], Any]] = deque(maxlen=WAITING_MAX)
        self._timer: Timer | None = None

    def start(self) -> None:
        """Read now, and every `EVERY_S` from now on."""
        self._timer = self._runtime.call_at(self._runtime.now() + EVERY_S, self.start)
        if self._runtime.now() - self._read_s >= EVERY_S:
            self._submit()

    def stop(self) -> None:
        """Read no more."""
        if self._timer:
            self._timer.cancel()

    def refresh(self, then: Callable[[], Any]) -> None:
        """Call `then` once the last reading is fresh: at once, or after one more reading."""
        if self._runtime.now() - self._read_s < FRESH_S:
            then()
            return
        self._waiting.append(then)
        self._submit()

    def history(self, gpu: int) -> dict[str, list[float | None]]:
        """Return by name the means of the last hour's minutes, oldest first."""
        now_s = self._runtime.now()
        return {name: series.read(now_s) for name, series in self._series[gpu].items()}

    def _submit(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        gpus = set(self._gpus)

        def ask() -> None:
            found = {}
            for gpu in gpus:
                try:
                    found[gpu] = self._devices.telemetry(gpu), self._devices.utilisation(gpu)
                except Exception as error:  # NVML raises anything; the other GPUs' values are true
                    self._note(gpu, str(error))
            self._unreadable.intersection_update(gpus - found.keys())
            self._loop.call_soon_threadsafe(self.take, found)

        self._probe.submit(ask)

    def _note(self, gpu: int, problem: str) -> None:
        """Write into the log that a GPU cannot be read, once until it can be again."""
        if gpu not in self._unreadable:
            self._unreadable.add(gpu)
            self._runtime.log.warning("sensors_unreadable", gpu=gpu, problem=problem)

    def take(self, found: Readings) -> None:
        """Take in what was read a moment ago."""
        self._is_reading = False
        now_s = self._read_s = self._runtime.now()
        self.latest = {gpu: telemetry for gpu, (telemetry, _) in found.items()}
        memory = {
            view.gpu: view.resident_bytes / view.capacity_bytes
            for view in self._arbiter.gpus()
            if view.capacity_bytes
        }
        for gpu, (telemetry, busy) in found.items():
            values = (busy, memory.get(gpu), telemetry.temperature_c, telemetry.power_w)
            for series, value in zip(self._series[gpu].values(), values, strict=True):
                series.add(now_s, value)
        while self._waiting:
            self._waiting.popleft()()
