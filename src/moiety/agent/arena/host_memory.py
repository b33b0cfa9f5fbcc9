"""How much memory of this host is available now, as the kernel and the control groups say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from moiety.agent.arena.cgroup_memory import memory_limits
from moiety.agent.arena.memory_pressure import is_under_pressure
from moiety.model.units import parse_bytes

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Memory that this process could use now without swapping and without being killed for it.

    The least of MemAvailable and of what the control group and each of its parents have left, of
    versions 1 and 2.
    $MOIETY_HOST_MEMORY replaces it if it is set: for tests, and for hosts that show neither.
    """
    if named := os.environ.get("MOIETY_HOST_MEMORY"):
        return parse_bytes(named)
    left = [limit.left_bytes for limit in memory_limits(proc, cgroups)]
    return min([_mem_available(proc), *left])


def spare_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """As `available_bytes`, but nothing while programs stand still for want of memory.

    MemAvailable counts page cache that could be given up, and that busy programs then read again.
    """
    if not os.environ.get("MOIETY_HOST_MEMORY") and is_under_pressure(proc, cgroups):
        return 0
    return available_bytes(proc, cgroups)


def _mem_available(proc: Path) -> int:
    with open(proc / "meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0
