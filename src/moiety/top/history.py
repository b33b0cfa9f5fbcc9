"""The last hour of a GPU as lines of bars."""

from __future__ import annotations

from typing import Final

from moiety.agent.control.rows import GpuRow
from moiety.model.format import sparkline

HISTORY: Final = (("busy", "busy"), ("memory", "memory"), ("temperature_c", "temp"))
CELSIUS_MAX: Final = 100.0
"""The top of the bars of temperatures."""


def drawn(row: GpuRow) -> list[str]:
    """The last hour of a GPU, one line for each value that it has."""
    lines = [
        f"GPU {row.gpu} {title.ljust(6)} {sparkline(row.history.get(name, []), top)}"
        for name, title, top in _tops(row)
        if any(value is not None for value in row.history.get(name, []))
    ]
    return lines or [f"GPU {row.gpu} has no history yet; it has a value after 15 s"]


def _tops(row: GpuRow) -> list[tuple[str, str, float]]:
    found = [(name, title, 1.0) for name, title in HISTORY[:2]]
    found.append((*HISTORY[2], CELSIUS_MAX))
    if row.sensors.power_limit_w:
        found.append(("power_w", "power", row.sensors.power_limit_w))
    return found
