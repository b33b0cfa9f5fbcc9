"""The memory limits of this process' control groups, of versions 1 and 2, and of every parent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NO_LIMIT_BYTES: Final = 1 << 60
"""Version 1 writes a number near 2**63 for no limit."""
DELETED: Final = " (deleted)"


@dataclass(frozen=True, slots=True)
class _Files:
    """How one version of control groups names what it says about memory."""

    mounts: tuple[str, ...]
    """Where the hierarchy may be mounted, below /sys/fs/cgroup."""
    limits: tuple[str, ...]
    used: str
    reclaimable: bytes
    """The line of memory.stat with the page cache that goes first, with that of all children."""


_V1: Final = _Files(
    ("memory",), ("memory.limit_in_bytes",), "memory.usage_in_bytes", b"total_inactive_file"
)
_V2: Final = _Files(
    ("", "unified"), ("memory.max", "memory.high"), "memory.current", b"inactive_file"
)
_HIERARCHICAL: Final = b"hierarchical_memory_limit"
"""The line of memory.stat (version 1) with the lowest limit of the group and of all parents."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One group with a limit."""

    limit_bytes: int
    used_bytes: int
    """Without page cache that is reclaimed before anything else."""

    @property
    def left_bytes(self) -> int:
        """What the group may still use."""
        return max(0, self.limit_bytes - self.used_bytes)


def memory_limits(proc: Path, cgroups: Path) -> list[MemoryLimit]:
    """The limits of this process' group and of every parent that is visible here.

    Version 1 also tells the lowest limit of parents that are not mounted here.

    Args:
        proc: the folder of /proc.
        cgroups: the folder of /sys/fs/cgroup.
    """
    each = (_limit(files, folder) for files, folder in _groups(proc, cgroups))
    return [limit for limit in each if limit]


def own_group(proc: Path, cgroups: Path) -> Path | None:
    """The folder of this process' group of version 2; None if it is not visible here."""
    own = (folder for files, folder in _groups(proc, cgroups) if files is _V2)
    return next((folder for folder in own if (folder / "cgroup.procs").exists()), None)


def _groups(proc: Path, cgroups: Path) -> Iterator[tuple[_Files, Path]]:
    """Where this process' group may be, and each parent of it.

    In a container the mounted hierarchy may begin at the container's own group: then that group is
    the mount itself.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return  # a kernel without control groups
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            files = _V2
        elif "memory" in controllers.split(","):
            files = _V1
        else:
            continue
        for mount in files.mounts:
            for folder in _upwards(cgroups / mount, path):
                yield files, folder


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The folder of a group and those of its parents, up to the mounted one."""
    parts = [part for part in path.removesuffix(DELETED).split("/") if part]
    if ".." in parts:
        parts = []  # outside this process' namespace: only the mounted group is known
    for depth in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:depth])


def _limit(files: _Files, folder: Path) -> MemoryLimit | None:
    """The limit of one group; None if it has none, or does not exist here."""
    stat = _stat(folder)
    limits = [limit for name in files.limits if (limit := _number(folder / name)) is not None]
    if _HIERARCHICAL in stat:
        limits.append(stat[_HIERARCHICAL])
    least = min(limits, default=NO_LIMIT_BYTES)
    if least >= NO_LIMIT_BYTES:
        return None
    used = _number(folder / files.used) or 0
    return MemoryLimit(least, max(0, used - stat.get(files.reclaimable, 0)))


def _number(path: Path) -> int | None:
    """The number in a group's file; None for "max", or if the file does not exist."""
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return None


def _stat(folder: Path) -> dict[bytes, int]:
    """The lines of memory.stat; empty if the file does not exist."""
    try:
        pairs = (line.split() for line in (folder / "memory.stat").read_bytes().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    except (OSError, ValueError):
        return {}
