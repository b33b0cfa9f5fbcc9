"""Whether programs stand still for want of memory, as the kernel's pressure stall information says.

Source: the kernel's Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moiety.agent.arena.cgroup_memory import own_group

STALLED_PERCENT: Final = 5.0
"""Of the last ten seconds, in which every program that could run waited for memory."""


def is_under_pressure(proc: Path, cgroups: Path) -> bool:
    """Whether all programs of this host, or all of this control group, wait for memory too often.

    A kernel without pressure stall information never says so.
    """
    group = own_group(proc, cgroups)
    files = [proc / "pressure" / "memory", *([group / "memory.pressure"] if group else [])]
    return any(_stalled_percent(file) >= STALLED_PERCENT for file in files)


def _stalled_percent(file: Path) -> float:
    """The average of ten seconds in the line `full`; 0 if there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:  # it does not exist, or was switched off when the kernel started
        return 0.0
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "full":
            values = dict(word.partition("=")[::2] for word in rest.split())
            return float(values.get("avg10", "0"))
    return 0.0
