"""How much memory of this host is available now, as the kernel and the cgroups say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moiety.model.units import parse_bytes

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Memory that this process could use now without swapping and without being killed for it.

    The least of MemAvailable and of what the cgroup (version 2) and its parents have left.
    $MOIETY_HOST_MEMORY replaces it if it is set: for tests, and for hosts that show neither.
    """
    if named := os.environ.get("MOIETY_HOST_MEMORY"):
        return parse_bytes(named)
    return min([_mem_available(proc), *_cgroup_rooms(proc, cgroups)])


def _mem_available(proc: Path) -> int:
    with open(proc / "meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def _cgroup_rooms(proc: Path, cgroups: Path) -> Iterator[int]:
    """The bytes that each limit leaves; inactive page cache does not count as used."""
    folder = _cgroup(proc, cgroups)
    while folder is not None and folder != cgroups:
        limits = [n for name in ("max", "high") if (n := _number(folder / f"memory.{name}"))]
        used = _number(folder / "memory.current")
        if limits and used is not None:
            yield max(0, min(limits) - used + _inactive_file(folder))
        folder = folder.parent


def _cgroup(proc: Path, cgroups: Path) -> Path | None:
    try:
        for line in (proc / "self" / "cgroup").read_bytes().decode().splitlines():
            if line.startswith("0::/"):
                return cgroups / line[4:]
    except OSError:
        pass  # a kernel without cgroups
    return None


def _number(path: Path) -> int | None:
    """The number in a cgroup's file; None for "max", or if the file does not exist."""
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return None


def _inactive_file(folder: Path) -> int:
    try:
        for line in (folder / "memory.stat").read_bytes().splitlines():
            if line.startswith(b"inactive_file "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0
