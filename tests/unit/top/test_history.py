"""The last hour as bars: a gap where nothing was read, and no line for what a GPU lacks."""

from __future__ import annotations

from moiety.devices.telemetry import Telemetry
from moiety.top.history import drawn
from tests.unit.top.test_rows import gpu_row


def test_a_line_is_drawn_for_each_value_that_a_gpu_has() -> None:
    assert drawn(gpu_row()) == ["GPU 0 has no history yet; it has a value after 15 s"]
    history = {"busy": [None, 0.0, 0.5, 1.0], "power_w": [None, 400.0]}
    row = gpu_row(sensors=Telemetry(power_limit_w=400.0), history=history)
    assert drawn(row) == ["GPU 0 busy    ▁▅█", "GPU 0 power   █"]
