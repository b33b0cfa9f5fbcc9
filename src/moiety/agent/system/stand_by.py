"""An agent that stands by: its code is loaded, and it begins once the one before it has ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import Final

AFTER: Final = "--after-fd"
"""The option with the descriptor for `stand_by`."""
END_TIMEOUT_S: Final = 30.0
_LOADED: Final = b"."
_PID_MAX: Final = 32


def stand_by(fd: int) -> bool:
    """Say that this process is there, then wait for the end of the process that it is told.

    `fd` is a socket to the command that started it. False: that command is gone, so nothing is to
    be done. An agent that does not end is found when its locks are taken.
    """
    with socket.socket(fileno=fd) as sock:
        try:
            sock.sendall(_LOADED)
            pid = sock.recv(_PID_MAX)
        except OSError:
            return False
    if not pid:
        return False
    wait_for_end(int(pid), END_TIMEOUT_S)
    return True


def wait_for_end(pid: int, timeout_s: float) -> bool:
    """Wait until a process has ended; False if it has not within `timeout_s` seconds."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)


class Standby:
    """The other end of `stand_by`: a command's, which has another agent take over."""

    def __init__(self) -> None:
        """A socket for the process that will stand by: `theirs`, until it has it."""
        self._sock, self.theirs = socket.socketpair()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process stands by; False if it ended, or is late."""
        self.theirs.close()
        self._sock.settimeout(timeout_s)
        try:
            return self._sock.recv(1) == _LOADED
        except OSError:
            return False

    def begin_after(self, pid: int) -> None:
        """Let it begin once this process has ended."""
        with contextlib.suppress(OSError):  # it is gone: its answer, or none, says why
            self._sock.sendall(str(pid).encode())

    def close(self) -> None:
        """Hang up: a process that was not told to begin ends."""
        self._sock.close()
        self.theirs.close()
