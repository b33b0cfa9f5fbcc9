"""Sensors: what a GPU lacks is None, and reasons for lowered clocks have names."""

from __future__ import annotations

from typing import Any

from moiety.devices.telemetry import Telemetry, read, reasons_of


def test_values_are_in_the_units_of_their_names() -> None:
    answers: dict[str, Any] = {
        "nvmlDeviceGetTemperature": 45,
        "nvmlDeviceGetPowerUsage": 62_500,
        "nvmlDeviceGetEnforcedPowerLimit": 400_000,
        "nvmlDeviceGetClockInfo": 1410,
        "nvmlDeviceGetCurrentClocksThrottleReasons": 0x44,
    }
    found = read(lambda call, *_: answers.get(call), 0)
    assert (found.temperature_c, found.power_w, found.power_limit_w) == (45, 62.5, 400.0)
    assert reasons_of(found.clock_events) == ["power limit", "hardware thermal slowdown"]
    assert (found.ecc_corrected, found.ecc_uncorrected) == (None, None), "it has none"


def test_a_gpu_without_sensors_has_no_value_and_an_idle_one_no_reason() -> None:
    assert read(lambda *_: None, 0) == Telemetry()
    assert reasons_of(None) == reasons_of(1) == []
