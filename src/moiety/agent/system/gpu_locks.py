"""Which agent owns a GPU: one lock for each, where the agents of all users see each other's.

The kernel releases it when its holder dies. A killed agent that has a supervisor is given a moment
to come back: its programs still hold the GPU, and its memory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from moiety.agent.system import processes
from moiety.agent.system.file_lock import FileLock, LockHeld, is_held
from moiety.agent.system.paths import Directory
from moiety.agent.system.users import USERS
from moiety.devices.interface import Device
from moiety.devices.native import is_simulated, simgpu_state_dir
from moiety.model.errors import GpuOwned, SystemRefusal

KEPT_BY: Final = "kept by"
"""Prefix of the pid and the start time of the process that starts an agent again."""


def own(device: Device, directory: Directory) -> FileLock:
    """Take a GPU for the agent of a directory; raises GpuOwned or SystemRefusal."""
    path = lock_dir() / f"moiety-gpu-{device.uuid}.lock"
    owner = (
        f"pid {os.getpid()}, user {USERS.wait_for(os.getuid()).name}, directory {directory.path}"
    )
    keeper = _keeper_of(directory)
    if keeper is not None:
        owner += f"\n{KEPT_BY} {keeper[0]} {keeper[1]}"

    def is_coming_back(left: str) -> bool:
        other = _keeper_in(left)
        return other is not None and other != keeper and _keeps_agents(*other)

    try:
        return FileLock(path, owner, mode=0o666, is_kept=is_coming_back)
    except LockHeld as held:
        raise GpuOwned(device.index, device.uuid, _told(held)) from None
    except OSError as error:
        raise SystemRefusal(error) from None


def _keeper_of(directory: Directory) -> tuple[int, int] | None:
    """The process that starts this agent again when it is killed, and when that began."""
    try:
        pid = int(directory.supervisor_lock.read_text())
    except (OSError, ValueError):
        return None
    started = processes.start_time(pid) if is_held(directory.supervisor_lock) else None
    return None if started is None else (pid, started)


def _keeps_agents(pid: int, started: int) -> bool:
    """Whether a process lives and is a supervisor: every user can write a pid into a lock."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return b"moiety.agent.supervisor" in words and processes.is_alive(pid, started)


def _keeper_in(left: str) -> tuple[int, int] | None:
    """The supervisor's pid and start time, as the last holder of a lock wrote them."""
    for line in left.splitlines():
        if line.startswith(KEPT_BY):
            try:
                pid, started = map(int, line.removeprefix(KEPT_BY).split())
            except ValueError:
                return None
            return pid, started
    return None


def _told(held: LockHeld) -> str:
    """The holder as it wrote itself into the lock; as the kernel says it if the two differ."""
    own_word = held.owner.partition("\n")[0]
    if held.is_kept:
        keeper = _keeper_in(held.owner)
        by = f" by pid {keeper[0]}{_whose(keeper[0])}" if keeper else ""
        return f"{own_word}, which was killed and is started again just now{by}"
    if held.pid is None or f"pid {held.pid}," in own_word:
        return own_word
    program = processes.name_of(held.pid) or "unknown"
    return f"pid {held.pid}{_whose(held.pid)} ({program}) has its lock"


def _whose(pid: int) -> str:
    uid = processes.owner_of(pid)
    return f" of user {USERS.wait_for(uid).name}" if uid is not None else ""


def lock_dir() -> Path:
    """The folder in which agents of all users see each other's locks."""
    if named := os.environ.get("MOIETY_LOCK_DIR"):
        return Path(named)
    if is_simulated():
        folder = simgpu_state_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    system = Path("/run/lock")
    try:
        # Not whether this user may write there: the answer must be the same for all users.
        is_everybodys = bool(system.stat().st_mode & stat.S_IWOTH)
    except OSError:
        is_everybodys = False
    return system if is_everybodys else Path("/tmp")
