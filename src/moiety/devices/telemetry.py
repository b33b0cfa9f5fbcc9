"""What the sensors of a GPU say: temperature, power, clocks, ECC errors, lowered clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

SENSOR_GPU: Final = 0
CLOCK_SM: Final = 1
CLOCK_MEMORY: Final = 2
ECC_CORRECTED: Final = 0
ECC_UNCORRECTED: Final = 1
ECC_VOLATILE: Final = 0
"""NVML's numbers for sensors, clocks and counters."""
MILLI: Final = 1000

REASONS: Final = {
    0x2: "application clocks",
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""NVML's clock event reasons by bit. Bits for an idle GPU and a display are left out."""


class Telemetry(msgspec.Struct, frozen=True):
    """The sensors of one GPU at one moment; None: this GPU does not have the value."""

    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    ecc_corrected: int | None = None
    """Single-bit errors since the driver was loaded."""
    ecc_uncorrected: int | None = None
    """Double-bit errors since the driver was loaded."""
    clock_events: int | None = None
    """NVML's bit mask of the reasons why the clocks are not at their maximum."""
    energy_mj: int | None = None
    """Energy since the driver was loaded, in millijoules."""


def read(ask: Callable[..., Any], handle: Any) -> Telemetry:
    """Read all sensors of a GPU; `ask` returns None for a call that does not work there."""
    power, limit = (
        ask("nvmlDeviceGetPowerUsage", handle),
        ask("nvmlDeviceGetEnforcedPowerLimit", handle),
    )
    events = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if events is None:  # the name before driver 535
        events = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return Telemetry(
        temperature_c=ask("nvmlDeviceGetTemperature", handle, SENSOR_GPU),
        power_w=None if power is None else power / MILLI,
        power_limit_w=None if limit is None else limit / MILLI,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, CLOCK_SM),
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, CLOCK_MEMORY),
        ecc_corrected=ask("nvmlDeviceGetTotalEccErrors", handle, ECC_CORRECTED, ECC_VOLATILE),
        ecc_uncorrected=ask("nvmlDeviceGetTotalEccErrors", handle, ECC_UNCORRECTED, ECC_VOLATILE),
        clock_events=events,
        energy_mj=ask("nvmlDeviceGetTotalEnergyConsumption", handle),
    )


def reasons_of(clock_events: int | None) -> list[str]:
    """Name the reasons for lowered clocks; [] if there are none, or none are known."""
    return [name for bit, name in REASONS.items() if (clock_events or 0) & bit]
