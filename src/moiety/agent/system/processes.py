"""Processes as the kernel knows them: identity, state, life and death."""

from __future__ import annotations

import os
import signal
import socket
import struct
from dataclasses import dataclass
from typing import Final

SO_PEERPIDFD = 77
CGROUP_ROOTS: Final = (b"/sys/fs/cgroup", b"/sys/fs/cgroup/unified")
"""Where cgroup v2 is, alone and beside v1."""
_HOST_PID_NAMESPACE = 0xEFFFFFFC
"""The inode that the kernel gives the first of all pid namespaces (PROC_PID_INIT_INO)."""
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class Peer:
    """The process and user at the other end of a Unix socket, as of its connect call."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The process at the other end of a connection, as the kernel says it."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))


def pidfd_of(connection: socket.socket, pid: int) -> int:
    """A descriptor of the connected process that becomes readable when it dies.

    Asks the socket where the kernel can (6.5 and later), so that a reused pid does not mean another
    process. Raises ProcessLookupError when the process is dead already.
    """
    try:
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return os.pidfd_open(pid)


def watch(pid: int) -> int:
    """A descriptor that becomes readable when the process dies; raises ProcessLookupError."""
    return os.pidfd_open(pid)


def may_use(peer: Peer, owner_uid: int) -> bool:
    """Whether this user may talk to something of `owner_uid`."""
    return peer.uid in (owner_uid, 0)


def start_time(pid: int) -> int | None:
    """When the process started (clock ticks since boot), None if there is none or it is dead."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])


def is_alive(pid: int, started: int) -> bool:
    """Whether the process lives, and not another process that got its pid."""
    return start_time(pid) == started


def is_stopped(pid: int) -> bool:
    """Whether a signal, a debugger or a freezer stopped it: then it cannot give anything back."""
    fields = _stat(pid)
    return fields is not None and (fields[0] in ("T", "t") or _is_frozen(pid))


def has_host_pids() -> bool:
    """Whether pids here are the host's, as in NVML's lists; False if /proc does not tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _HOST_PID_NAMESPACE
    except OSError:
        return False


def has_mapped(pid: int, memfd: str) -> bool:
    """Whether the process has a memfd of this name mapped; True if the kernel does not tell.

    Reading the list of its mappings may take milliseconds: not for the event loop.
    """
    name = f" /memfd:{memfd} ".encode()
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return any(name in line for line in file)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def name_of(pid: int) -> str:
    """The short name of a process; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def owner_of(pid: int) -> int | None:
    """The user whose process it is; None if it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def kill(pidfd: int) -> None:
    """End the process behind the descriptor; nothing happens if it is dead."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass


def send(pid: int, started: int, number: int, owner: int | None = None) -> bool:
    """Send a signal to one process; with `owner`, only to one of that user.

    Returns whether it lived. Raises PermissionError.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, OverflowError):
        return False
    try:
        if owner is not None and owner_of(pid) != owner:
            return False
        if not is_alive(pid, started):
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def give_way() -> None:
    """Let another thread run on this processor."""
    os.sched_yield()


def _is_frozen(pid: int) -> bool:
    """Whether its control group is frozen (a paused container); cgroup v2 only.

    Beside the hierarchies of v1, that of v2 has a folder of its own.
    """
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            own = next(line[3:].strip() for line in file if line.startswith(b"0::"))
    except (OSError, StopIteration):
        return False
    return any(_says_frozen(root + own) for root in CGROUP_ROOTS)


def _says_frozen(folder: bytes) -> bool:
    try:
        with open(folder + b"/cgroup.events", "rb") as file:
            return b"frozen 1" in file.read()
    except OSError:
        return False


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None
