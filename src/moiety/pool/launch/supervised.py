"""One running workload as the server has it: its supervisor, also that of an earlier server."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.agent.system import file_lock, processes
from moiety.pool.starter.records import (
    Damaged,
    Exit,
    ProcessIdentity,
    Started,
    read_exit,
    read_started,
)

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
LAUNCH: Final = "launch"
"""A file that the supervisor's process holds locked until it has the workload's own lock.

The starter calls it so; where this server starts it, the number of the attempt follows.
"""
LOCK: Final = "lock"
PIDFD_SEND_SIGNAL: Final = 424
"""The number of the system call on all processors; Python's own sends no value with a signal."""
SI_QUEUE: Final = -1
SIGNAL_INFO: Final = struct.Struct("@iiixxxxiIQ96x")
"""siginfo_t: number, error, code, sender, its user, value."""


@dataclass(slots=True, eq=False)
class Supervised:
    """A supervisor, held by a descriptor that no later process with its pid can have."""

    number: int
    attempt: int
    process: ProcessIdentity
    pidfd: int
    child: subprocess.Popen[bytes] | None = None
    """Set if this server started it: it has to be waited for."""
    agent_workload: str = ""
    """The agent's name of its share."""

    def terminate(self) -> None:
        """Tell it to end its workload: SIGTERM, and SIGKILL after the grace."""
        terminate(self.pidfd)

    def send_all(self, number: int) -> None:
        """Send a signal to a program that has lost its supervisor, and to its whole group."""
        if is_alive(self.process):  # else the group may be that of another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def pass_on(self, which: int, *, is_supervised: bool) -> None:
        """Have it send a signal to its workload; SIGSTOP freezes all of it, and its time limit.

        A program that has lost its supervisor gets the signal itself.
        """
        try:
            number = signal.SIGRTMIN + which if is_supervised else which
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            pass  # it has just ended

    def limit(self, limit_s: float | None) -> None:
        """Have it end its workload after this time, counted from its begin; None: never.

        Raises OSError if it cannot be told: too many signals wait for processes of its user, say.
        """
        value = 0 if limit_s is None else max(round(limit_s * 1000), 1)
        info = SIGNAL_INFO.pack(signal.SIGRTMIN, 0, SI_QUEUE, os.getpid(), os.getuid(), value)
        call = map(ctypes.c_long, (PIDFD_SEND_SIGNAL, self.pidfd, signal.SIGRTMIN))
        failed = ctypes.CDLL(None, use_errno=True).syscall(*call, info, ctypes.c_long(0))
        error = ctypes.get_errno() if failed else 0
        if error and error != errno.ESRCH:  # else it has just ended
            raise OSError(error, os.strerror(error))

    def close(self) -> None:
        """Give the descriptor back, and the zombie if it is ours."""
        os.close(self.pidfd)
        if self.child is not None:
            self.child.wait()


@dataclass(frozen=True, slots=True)
class Remains:
    """What is there of an attempt now."""

    alive: ProcessIdentity | None = None
    """Its supervisor, or its program if that has lost its supervisor."""
    is_supervised: bool = False
    """Its supervisor lives."""
    is_launching: bool = False
    """A supervisor of the workload is there, and has not written that this attempt began."""
    exit: Exit | None = None
    started: Started | None = None
    damaged: Damaged | None = None

    @property
    def is_left(self) -> bool:
        """Whether its supervisor was killed before it has written how it ended."""
        return self.is_of_this_boot and self.exit is None and not self.is_supervised

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the machine was not restarted since it began."""
        return self.started is not None and self.started.boot_id == boot_id()


def remains_of(folder: Path, attempt: int) -> Remains:
    """What there is of an attempt now."""
    names = (f"{LAUNCH}.{attempt}", LAUNCH, LOCK)
    is_launching = any(file_lock.is_held(folder / name) for name in names)
    started, ended = read_started(folder), read_exit(folder)
    damaged = next((each for each in (started, ended) if isinstance(each, Damaged)), None)
    begun = started if isinstance(started, Started) and started.attempt == attempt else None
    over = ended if isinstance(ended, Exit) and ended.attempt == attempt else None
    if begun is not None and begun.boot_id == boot_id():
        for each in (begun.supervisor, begun.child):
            if is_alive(each):
                return Remains(each, each == begun.supervisor, started=begun)
        is_launching = False
    return Remains(None, False, is_launching and over is None, over, begun, damaged)


def end_stray(folder: Path, attempt: int) -> None:
    """End an earlier attempt that has begun after all, so that this one can."""
    started = read_started(folder)
    if isinstance(started, Started) and started.attempt < attempt:
        found = adopt(0, started.attempt, started.supervisor, "")
        if found is not None and started.boot_id == boot_id():
            found.terminate()
        if found is not None:
            found.close()


def adopt(number: int, attempt: int, process: ProcessIdentity, agent: str) -> Supervised | None:
    """Hold a process that another server started; None: it has just ended."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if not is_alive(process):
        os.close(pidfd)
        return None
    return Supervised(number, attempt, process, pidfd, None, agent)


def is_alive(process: ProcessIdentity) -> bool:
    """Whether it lives, if the machine was not restarted since it was written down."""
    return processes.is_alive(process.pid, process.start_ticks)


def terminate(pidfd: int) -> None:
    """Send SIGTERM, also if it was stopped; nothing happens if it is dead."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it has just ended


def boot_id() -> str:
    """The name of this run of the machine."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
