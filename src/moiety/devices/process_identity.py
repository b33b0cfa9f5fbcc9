"""The owner of a process: its user, program, container and pod, read from /proc.

Pids are used again, so an `Origin` has the start time, and callers compare it before they act. NVML
reports pids of the host; in another PID namespace they are other processes.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.devices.cgroups import CgroupPlacement, parse
from moiety.devices.native import is_simulated

PROC: Final = Path("/proc")
HOST_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the host's PID namespace, the same on every Linux (proc_ns.h)."""
STATE, START_TIME = 0, 19
"""Fields of /proc/PID/stat, counted behind the name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The identity of one process."""

    pid: int
    started: int
    """Start time in clock ticks since boot; together with the pid it identifies the process."""
    uid: int
    user: str
    """The user's name, or number where there is no name."""
    command: str
    """The file name of its program, or its own name where that may not be read."""
    placement: CgroupPlacement
    inner_pid: int
    """Its pid in its own PID namespace; `pid` outside of containers."""
    is_named: bool = True
    """False while the system's tables have not said who its user is: `user` is the number."""

    def __str__(self) -> str:
        where = self.where
        return f"{self.command or '?'} (pid {self.pid}, {self.user}{', ' * bool(where)}{where})"

    @property
    def where(self) -> str:
        """Its container and pod in words; empty outside of them."""
        found = self.placement
        parts = []
        if found.container:
            parts.append(f"{found.runtime or 'container'} {found.short}")
        if found.pod:
            parts.append(f"pod {found.pod}")
        if found.job:
            parts.append(f"job {found.job}")
        return ", ".join(parts)


def user_name(uid: int) -> str:
    """A user's name on this machine, or the number; a directory service may make it slow."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def origin_of(
    pid: int, proc: Path = PROC, name_of: Callable[[int], str] = user_name
) -> Origin | None:
    """The origin of a process; None if it does not exist, or is dead.

    `name_of` returns the name of a user.
    """
    folder = proc / str(pid)
    try:
        uid = folder.stat().st_uid
        fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        status = (folder / "status").read_bytes().decode(errors="replace")
    except OSError:
        return None
    if len(fields) <= START_TIME or fields[STATE] in (b"Z", b"X"):
        return None
    try:
        placed = parse((folder / "cgroup").read_bytes().decode(errors="replace"))
    except OSError:
        placed = CgroupPlacement()
    real = _ids(status, "Uid:")
    inner = _ids(status, "NSpid:")
    uid = real[0] if real else uid  # a program that may not be dumped belongs to root in /proc
    return Origin(
        pid=pid,
        started=int(fields[START_TIME]),
        uid=uid,
        user=name_of(uid),
        command=_command(folder, status),
        placement=placed,
        inner_pid=inner[-1] if inner else pid,
    )


def sees_host_pids(proc: Path = PROC) -> bool:
    """Whether the pids that NVML reports mean the same here: in the host's PID namespace.

    Simulated GPUs report pids as their processes see them, which are of one namespace.
    """
    if is_simulated():
        return True
    try:
        return (proc / "self/ns/pid").stat().st_ino == HOST_PID_NAMESPACE
    except OSError:
        return False


def _command(folder: Path, status: str) -> str:
    try:
        return os.path.basename(os.readlink(folder / "exe")).removesuffix(" (deleted)")
    except OSError:
        named = next((line for line in status.splitlines() if line.startswith("Name:")), "Name:")
        return named.removeprefix("Name:").strip()


def _ids(status: str, title: str) -> list[int]:
    for line in status.splitlines():
        if line.startswith(title):
            return [int(word) for word in line.removeprefix(title).split() if word.isdecimal()]
    return []
