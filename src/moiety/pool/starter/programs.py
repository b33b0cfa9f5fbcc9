"""The native programs that run workloads, and how they are called.

The supervisor runs one workload. The starter starts supervisors by the ids that it is sent, and
settles workloads whose supervisor has died. Both outlive the process that started them.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.devices.native import native_dir
from moiety.model.errors import NativeLibraryMissing
from moiety.pool.starter.records import ProcessIdentity

SUPERVISOR: Final = "moiety-supervisor"
STARTER: Final = "moiety-starter"
TASKS: Final = "moiety-tasks"
ALREADY_STARTED: Final = 75
"""The supervisor's exit code if this attempt was started before."""


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """Why the starter could not start a workload; what its folder says about it is in `exit`."""

    workload: str
    """Its id, or `-` if what was sent is none."""
    number: int
    """An errno; above 1000 the exit code of a supervisor that wrote no record."""
    text: str


def program(name: str) -> Path:
    """Where one of our programs is; raises NativeLibraryMissing."""
    folder = native_dir()
    if folder is None or not (folder / name).exists():
        raise NativeLibraryMissing(name)
    return folder / name


def spec_file(spec: bytes) -> int:
    """A descriptor of a file of memory that has this spec, and can be changed no more."""
    fd = os.memfd_create("moiety-spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(spec)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def start_supervisor(
    spec: bytes, folder: int, cgroups: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a supervisor with the rights of this process; `folder` is the state folder, opened."""
    spec_fd = spec_file(spec)
    try:
        fds = (spec_fd, folder, *cgroups)
        return subprocess.Popen([program(SUPERVISOR), *map(str, fds)], pass_fds=fds)
    finally:
        os.close(spec_fd)


@dataclass(frozen=True, slots=True)
class Held:
    """The process that becomes the supervisor of a workload once it is told to begin."""

    workload: str
    process: ProcessIdentity


class StarterSocket:
    """The socket that a starter takes ids from; the starter goes on when this is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """The socket, which is readable when there is a refusal."""
        return self._connection.fileno()

    def start(self, workload: str) -> None:
        """Ask for the workload of this id; raises BrokenPipeError if the starter has ended."""
        self._connection.send(workload.encode())

    def hold(self, workload: str) -> None:
        """Ask for the process of its supervisor, which waits for `start`; Held is the answer."""
        self._connection.send(b"+" + workload.encode())

    def give_up(self, workload: str) -> None:
        """End the process that `hold` has made."""
        self._connection.send(b"~" + workload.encode())

    def end(self) -> None:
        """Let no server come any more: it ends after the last workload that it started."""
        self._connection.send(b"!")

    def refusal(self) -> StartRefusal | None:
        """What could not be started, if there is something now; raises EOFError if it has ended."""
        found = self.answer()
        assert not isinstance(found, Held), "nothing was held"
        return found

    def answer(self, *, wait: bool = False) -> StartRefusal | Held | None:
        """What it says, if there is something now or it is waited for.

        Raises EOFError if it has ended.
        """
        try:
            packet = self._connection.recv(1024, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            packet = b""
        if not packet:
            raise EOFError("the starter has ended")
        workload, number, text = packet.decode("utf-8", "replace").split(" ", 2)
        if int(number) == 0:
            pid, start_ticks = text.split(" ")
            return Held(workload, ProcessIdentity(int(pid), int(start_ticks)))
        return StartRefusal(workload, int(number), text)

    def close(self) -> None:
        """Leave the starter to itself."""
        self._connection.close()


class Starter(StarterSocket):
    """A starter that this process has started for itself alone.

    It ends after the last workload that it started, once the socket is closed.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        super().__init__(connection)
        self.process = process


def start_starter(pool: int, cgroups: Sequence[int] = ()) -> Starter:
    """Start a starter for the workloads below a folder (a descriptor), which must be the server's.

    In it, `ID/spec` is what the supervisor of workload ID gets, and `ID` its state folder.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        fds = (theirs.fileno(), pool, *cgroups)
        process = subprocess.Popen([program(STARTER), *map(str, fds)], pass_fds=fds)
    return Starter(process, ours)
