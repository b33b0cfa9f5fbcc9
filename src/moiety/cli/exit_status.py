"""How a process ended that is not a child of this one, as far as the kernel says it.

Linux 6.15 and later say it of every pidfd once the parent has asked (PIDFD_GET_INFO in
include/uapi/linux/pidfd.h). Before that, /proc says it until the parent has asked.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

INFO: Final = struct.Struct("=QQ11Ii")
"""struct pidfd_info as of its first version: the mask first, the exit status last."""
GET_INFO: Final = 3 << 30 | INFO.size << 16 | 0xFF << 8 | 11
"""PIDFD_GET_INFO, which is _IOWR(0xFF, 11, struct pidfd_info)."""
INFO_EXIT: Final = 1 << 3
STATE, EXIT_CODE = 0, 49
"""Fields of /proc/PID/stat, counted behind the name."""
PROC: Final = Path("/proc")


def exit_code(pidfd: int, pid: int) -> int | None:
    """The exit code of a process that has ended, or -N after signal N; None: it is not known."""
    status = _told(pidfd)
    if status is None:
        status = _shown(pid)
    if status is None:
        status = _told(pidfd)  # its parent has just asked
    return None if status is None else os.waitstatus_to_exitcode(status)


def _told(pidfd: int) -> int | None:
    asked = bytearray(INFO.size)
    struct.pack_into("=Q", asked, 0, INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, GET_INFO, asked)
    except OSError:  # an older kernel, or a process that ended before the kernel kept it
        return None
    mask, *_, status = INFO.unpack(asked)
    return int(status) if mask & INFO_EXIT else None


def _shown(pid: int, proc: Path = PROC) -> int | None:
    """The status of a process whose parent has not asked; other users see 0 in its place."""
    try:
        owner = (proc / str(pid)).stat().st_uid
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        status = int(fields[EXIT_CODE])
    except (OSError, ValueError, IndexError):
        return None
    if fields[STATE] != b"Z" or (not status and os.geteuid() not in (0, owner)):
        return None
    return status
