"""Workloads for tests: supervisors and starters with real processes, and events to wait for."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

from moiety.pool.starter.programs import Starter, start_starter, start_supervisor
from moiety.pool.starter.records import Exit, Started, read_exit, read_started
from moiety.pool.starter.spec import Spec, encoded
from moiety.testing.waiting import DEADLINE_S, until
from tests.support.native import compile_c

OTHER_UID: Final = 65033 if os.getuid() == 0 else os.getuid()
"""As whom workloads run: a user that no system's tables know, where the tests are root."""
OTHER_GID: Final = 65033 if os.getuid() == 0 else os.getgid()

PYTHON: Final = next(p for p in ("/usr/bin/python3", sys.executable) if os.access(p, os.X_OK))
"""Other users may not be able to execute the one that runs the tests."""
HALTING: Final = Path(__file__).parents[1] / "native" / "halting.c"

_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200


class FolderEvents:
    """Waits until something is renamed into a folder, or made or removed in it (inotify)."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        mask = _IN_MOVED_TO | _IN_CREATE | _IN_DELETE
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(folder), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def until(self, condition: Callable[[], Any]) -> Any:
        """Ask again after each event, until the condition is true."""
        while not (found := condition()):
            self._read()
        return found

    def until_named(self, name: str) -> None:
        """Wait for an event of this name."""
        while name not in self._read():
            pass

    def _read(self) -> list[str]:
        """The names of the next events."""
        assert select.select([self._fd], [], [], DEADLINE_S)[0], "nothing happens in the folder"
        rest, names = os.read(self._fd, 65536), []
        while rest:
            length = int.from_bytes(rest[12:16], "little")
            names.append(rest[16 : 16 + length].rstrip(b"\0").decode())
            rest = rest[16 + length :]
        return names

    def close(self) -> None:
        os.close(self._fd)


class Told:
    """What processes write into a named pipe, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        os.chmod(path, 0o666)
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # a writer: it never ends
        self._rest = b""

    def line(self) -> str:
        """The next line."""
        while b"\n" not in self._rest:
            assert select.select([self._fd], [], [], DEADLINE_S)[0], "no process says anything"
            self._rest += os.read(self._fd, 65536)
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()

    def lines(self, count: int) -> list[str]:
        """As many lines."""
        return [self.line() for _ in range(count)]

    def pids(self, count: int) -> list[int]:
        """As many lines, each of which is a pid."""
        return [int(line) for line in self.lines(count)]

    def close(self) -> None:
        os.close(self._fd)


def until_ended(pid: int) -> None:
    """Wait for the end of a process that need not be a child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], DEADLINE_S)[0], f"process {pid} does not end"
    finally:
        os.close(fd)


def is_running(pid: int) -> bool:
    """Whether it is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until_stopped(pid: int, cgroup: Path | None = None) -> None:
    """Wait until a process is stopped, or its cgroup frozen."""
    if cgroup is not None:
        until(lambda: "frozen 1" in (cgroup / "cgroup.events").read_text(), "a frozen cgroup")
    else:
        stat = Path(f"/proc/{pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "a stopped process")


@dataclass
class Workload:
    """One workload: its folder, and the supervisors that were started for it."""

    folder: Path
    spec: Spec
    told: Told
    cgroups: Sequence[int] = ()
    supervisors: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.folder.parent / "out" / "log"

    def start(self, **changes: Any) -> subprocess.Popen[bytes]:
        """Start a supervisor for it."""
        self.spec = replace(self.spec, **changes)
        directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            process = start_supervisor(encoded(self.spec), directory, self.cgroups)
        finally:
            os.close(directory)
        self.supervisors.append(process)
        return process

    def run(self, **changes: Any) -> Exit:
        """Start a supervisor, and wait until it has written how the workload ended."""
        assert self.start(**changes).wait(DEADLINE_S) == 0
        return self.exit()

    @property
    def cgroup(self) -> Path | None:
        """Its cgroup, if it may have one."""
        name = f"{self.spec.id}.{self.spec.attempt}"
        return Path(f"/proc/self/fd/{self.cgroups[0]}") / name if self.cgroups else None

    def started(self) -> Started:
        """The record of its start."""
        found = read_started(self.folder)
        assert isinstance(found, Started), found
        return found

    def exit(self) -> Exit:
        """The record of its end."""
        found = read_exit(self.folder)
        assert isinstance(found, Exit), found
        return found

    def write_spec(self, **changes: Any) -> None:
        """Put the spec where the starter looks for it."""
        self.spec = replace(self.spec, **changes)
        file = self.folder / "spec"
        file.write_bytes(encoded(self.spec))
        file.chmod(0o600)


def shell(script: str) -> tuple[str, str, str]:
    """The arguments of a shell that runs this."""
    return ("/bin/sh", "-c", script)


@dataclass
class Pool:
    """A folder with workloads and a place for their output; ends all that it started."""

    folder: Path
    told: Told
    cgroups: Sequence[int] = ()
    workloads: list[Workload] = field(default_factory=list)
    starters: list[Starter] = field(default_factory=list)

    def workload(self, script: str = "exit 0", name: str = "", **changes: Any) -> Workload:
        """A workload that runs a script of the shell, in which $TOLD is the pipe."""
        folder = self.folder / "pool" / (name or f"w{len(self.workloads)}")
        folder.mkdir(mode=0o755)
        log = str(self.folder / "out" / "log")
        spec = Spec(
            id=folder.name,
            attempt=1,
            uid=OTHER_UID,
            gid=OTHER_GID,
            arguments=shell(script),
            environment={"PATH": "/usr/bin:/bin", "TOLD": str(self.told.path)},
            cwd=str(self.folder / "out"),
            stdout=log,
            grace_s=60.0,
        )
        made = Workload(folder, replace(spec, **changes), self.told, self.cgroups)
        made.folder = folder
        self.workloads.append(made)
        return made

    @property
    def log(self) -> Path:
        """Where the workloads' output goes."""
        return self.folder / "out" / "log"

    def starter(self) -> Starter:
        """Start a starter for these workloads."""
        directory = os.open(self.folder / "pool", os.O_RDONLY | os.O_DIRECTORY)
        try:
            made = start_starter(directory, self.cgroups)
        finally:
            os.close(directory)
        self.starters.append(made)
        return made

    def close(self) -> None:
        """End what is left of it."""
        for starter in self.starters:
            with suppress(OSError):
                starter.close()
        for workload in self.workloads:
            found = read_started(workload.folder)
            if isinstance(found, Started):
                for each in (found.supervisor, found.child):
                    if is_the_same(each.pid, each.start_ticks):
                        with suppress(ProcessLookupError):
                            os.kill(each.pid, signal.SIGKILL)
        for process in [s.process for s in self.starters] + [
            p for w in self.workloads for p in w.supervisors
        ]:
            process.kill()
            process.wait()
        self.told.close()


def is_the_same(pid: int, start_ticks: int) -> bool:
    """Whether this process is there, as the one that began then."""
    try:
        after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(after[19]) == start_ticks


@contextmanager
def pool(folder: Path, cgroups: Sequence[int] = ()) -> Iterator[Pool]:
    """A pool in this folder, through which every user must be able to go."""
    (folder / "pool").mkdir(mode=0o755)
    (folder / "out").mkdir()
    os.chown(folder / "out", OTHER_UID, OTHER_GID)
    made = Pool(folder, Told(folder / "told"), cgroups)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def halting(told: Told, point: str, scratch: Path) -> Iterator[Told]:
    """What is started meanwhile stops at a call (`fsync:2`), and its pid is told."""
    library = compile_c([HALTING], scratch / "halting.so", shared=True, flags=["-fPIC"])
    variables = {"LD_PRELOAD": str(library), "HALT_AT": point, "HALT_TOLD": str(told.path)}
    with mock.patch.dict(os.environ, variables):
        yield told


@contextmanager
def own_cgroup(hierarchy: str) -> Iterator[int | None]:
    """A new cgroup at the top of a hierarchy of this machine, as a descriptor; None: not here."""
    base = next((b for b in _mounts(hierarchy) if os.access(b, os.W_OK)), None)
    name = f"moiety-test-{os.getpid()}"
    try:
        if base is None:
            raise PermissionError
        (base / name).mkdir()
    except OSError:
        yield None
        return
    fd = os.open(base / name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)
        for each in sorted((base / name).glob("*/")):
            with suppress(OSError):
                each.rmdir()
        (base / name).rmdir()


def _mounts(hierarchy: str) -> Iterator[Path]:
    """Where this kind of cgroup (`cgroup2`, or a controller of version 1) is mounted."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        kind, _, options = after.split()[:3]
        is_it = (
            kind == "cgroup2"
            if hierarchy == "cgroup2"
            else kind == "cgroup" and hierarchy in options.split(",")
        )
        if is_it:
            yield Path(before.split()[4])
