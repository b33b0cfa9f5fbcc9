"""Cuts the connection of a living program to its agent, from outside."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path
from typing import Final

SYS_PIDFD_GETFD: Final = 438
"""X86-64."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def cut_connection(pid: int) -> bool:
    """Shut every SEQPACKET socket of a process down; returns whether there was one.

    Raises PermissionError where the kernel lets no process borrow descriptors of another.
    """
    pidfd = os.pidfd_open(pid)
    found = False
    try:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            if not _is_socket(each):
                continue
            fd = _libc.syscall(SYS_PIDFD_GETFD, pidfd, int(each.name), 0)
            if fd < 0:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error))
            with socket.socket(fileno=fd) as borrowed:
                if borrowed.type == socket.SOCK_SEQPACKET:
                    borrowed.shutdown(socket.SHUT_RDWR)
                    found = True
    finally:
        os.close(pidfd)
    return found


def _is_socket(path: Path) -> bool:
    try:
        return os.readlink(path).startswith("socket:")
    except OSError:
        return False  # it was closed just now
