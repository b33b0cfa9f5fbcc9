"""How `moiety status` writes a GPU: what it lacks is "-", never 0, and a lost one is named."""

from __future__ import annotations

from moiety.cli.status import _cells, _wide_cells, lost_lines, power
from moiety.devices.telemetry import Telemetry
from tests.unit.top.test_rows import gpu_row


def test_a_value_that_a_gpu_lacks_is_a_dash() -> None:
    assert _cells(gpu_row())[8:10] == ["-", "-"]
    assert _wide_cells(gpu_row()) == ["-", "-", "-", "-"]


def test_sensors_have_their_units() -> None:
    row = gpu_row(
        sensors=Telemetry(
            temperature_c=45,
            power_w=62.4,
            power_limit_w=400.0,
            sm_clock_mhz=1410,
            ecc_corrected=3,
            ecc_uncorrected=0,
            clock_events=1,
        )
    )
    assert _cells(row)[8:10] == ["45 C", "62/400 W"]
    assert power(gpu_row(sensors=Telemetry(power_w=62.4))) == "62 W"
    assert _wide_cells(row) == ["1410 MHz", "-", "3/0", "nothing"]


def test_a_lost_gpu_is_named() -> None:
    rows = [gpu_row(), gpu_row(gpu=1, lost="GPU 1 has fallen off the bus (XID 79)")]
    assert lost_lines(rows) == ["GPU 1 has fallen off the bus (XID 79); it gets no programs"]
