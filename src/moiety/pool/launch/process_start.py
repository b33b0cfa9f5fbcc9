"""How the process of a supervisor is begun: by this server itself, or by the machine's starter.

Either way the process is there before the specification is whole, so that the agent can tie a share
to it, and nothing is started if this server is killed before it has said the word.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from moiety.agent.system import processes
from moiety.model.errors import MoietyError
from moiety.pool.launch.spool import SPEC
from moiety.pool.launch.starter_link import StarterLink
from moiety.pool.launch.supervised import LAUNCH
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.programs import SUPERVISOR, program
from moiety.pool.starter.records import ProcessIdentity

WAIT_FOR_WORD: Final = 'read -r word || exit 75; exec "$0" "$@"'
PROCESS_GROUPS: Final = "process groups, no limits of memory or processes"
Specify = Callable[[int], tuple[bytes, str]]
"""Given the supervisor's process: its specification, and the agent's name of its share."""


@dataclass(slots=True)
class Launched:
    """A supervisor that was told to begin."""

    process: ProcessIdentity
    child: subprocess.Popen[bytes] | None = None
    """Set if this server started it: it has to be waited for."""
    agent_workload: str = ""
    """The agent's name of its share; empty without GPUs."""


class StartFailed(MoietyError):
    """An attempt did not get as far as its program; `is_refusal`: the agent would not have it."""

    def __init__(self, what: str, *, is_refusal: bool = False) -> None:
        super().__init__(what)
        self.is_refusal = is_refusal


class ProcessStart(Protocol):
    """One way to begin supervisors."""

    serves_all: bool
    """Whether programs of all users can be started."""

    def must_be_ready(self) -> None:
        """Raise StarterGone if nothing can be started now."""

    def begin(self, number: int, attempt: int, specify: Specify) -> Launched:
        """Begin the supervisor of an attempt; blocking. Raises what `specify` raises, and more."""

    def settle(self, number: int) -> bool:
        """Have ended what a killed supervisor has left; False: it ends by itself."""

    def refusal(self, number: int) -> str:
        """What was said about a start that left no record; empty: nothing."""

    def end(self) -> None:
        """The pool ends: nothing is started any more."""

    def described(self) -> str:
        """How workloads are ended and what limits they have, in one line."""


@dataclass(slots=True)
class OwnStart:
    """Supervisors are children of this server, and have its rights."""

    paths: PoolPaths
    serves_all: bool = False

    def must_be_ready(self) -> None:
        """It always is."""

    def begin(self, number: int, attempt: int, specify: Specify) -> Launched:
        """Start a shell of one line that becomes the supervisor."""
        folder = self.paths.of_workload(number)
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as stack:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, directory)
            spec = os.memfd_create("moiety-workload", os.MFD_CLOEXEC)
            stack.callback(os.close, spec)
            lock = hold_launch(folder, attempt)
            stack.callback(os.close, lock)
            log = os.open(
                folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )  # fmt: skip
            stack.callback(os.close, log)
            command = [str(program(SUPERVISOR)), str(spec), str(directory)]
            process = subprocess.Popen(
                ["/bin/sh", "-c", WAIT_FOR_WORD, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(spec, directory, lock),
                cwd="/",
                start_new_session=True,
            )
            assert process.stdin is not None
            try:
                started = processes.start_time(process.pid)
                if started is None:
                    raise StartFailed("its supervisor ended at once")
                content, name = specify(process.pid)
                os.write(spec, content)
                os.lseek(spec, 0, os.SEEK_SET)
                process.stdin.write(b"go\n")
                process.stdin.close()
            except BaseException:
                process.kill()
                process.wait()
                with contextlib.suppress(OSError):
                    process.stdin.close()
                raise
        return Launched(ProcessIdentity(process.pid, started), process, name)

    def settle(self, number: int) -> bool:
        """Its program goes on without its supervisor."""
        return False

    def refusal(self, number: int) -> str:
        """The exit code of its process says it."""
        return ""

    def end(self) -> None:
        """There is nothing to tell."""

    def described(self) -> str:
        """There is no cgroup that a user may make."""
        return PROCESS_GROUPS


@dataclass(slots=True)
class StarterStart:
    """Supervisors are children of the machine's starter, which root has started."""

    paths: PoolPaths
    link: StarterLink
    serves_all: bool = True

    def must_be_ready(self) -> None:
        """Raise StarterGone if no starter answers."""
        self.link.must_be_there()

    def begin(self, number: int, attempt: int, specify: Specify) -> Launched:
        """Have a process made and held, write the specification, and let the process begin."""
        del attempt  # it stands in the specification
        folder = self.paths.of_workload(number)
        folder.mkdir(mode=0o700, exist_ok=True)
        process = self.link.hold(str(number))
        try:
            content, name = specify(process.pid)
            self._write(folder, content)
            self.link.begin(str(number))
        except BaseException:
            self.link.give_up(str(number))
            raise
        return Launched(process, None, name)

    def _write(self, folder: Path, content: bytes) -> None:
        written = folder / f"{SPEC}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(written, flags, 0o600), "wb") as file:
            file.write(content)
        written.replace(folder / SPEC)

    def settle(self, number: int) -> bool:
        """Ask the starter, which writes the record of its end; raises StarterGone."""
        self.link.begin(str(number))
        return True

    def refusal(self, number: int) -> str:
        """What the starter said."""
        found = self.link.refusal(str(number))
        return "" if found is None else found.text

    def end(self) -> None:
        """The starter ends after the last workload."""
        self.link.end()

    def described(self) -> str:
        """What the starter has found on this machine."""
        try:
            return self.paths.cgroups.read_text()
        except OSError:
            return PROCESS_GROUPS


def hold_launch(folder: Path, attempt: int) -> int:
    """Lock the file of an attempt that its supervisor inherits, so that it is never missed."""
    fd = os.open(
        folder / f"{LAUNCH}.{attempt}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StartFailed("the same attempt is being started already") from None
    return fd
