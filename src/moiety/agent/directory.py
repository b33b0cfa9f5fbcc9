"""The agent's directory: where its sockets, locks, workloads and log lie.

A user's own agent keeps it to itself. In that of the system's agent everybody may go to the control
socket and to their own workloads' sockets, and nobody may look around.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.config.load import load
from moiety.config.table import WHICH_AGENT
from moiety.model.errors import BadAgentDirectory

SOCKET_PATH_MAX = 107
"""what fits into sockaddr_un, less the final NUL"""
SYSTEM: Final = "/run/moiety"


@dataclass(frozen=True, slots=True)
class Directory:
    """The paths in one agent's directory."""

    path: Path
    shared: bool = False
    """the system's agent serves here, for all users"""

    @property
    def folder_mode(self) -> int:
        """Of this folder and those of workloads."""
        return 0o711 if self.shared else 0o700

    @property
    def control(self) -> Path:
        """The socket for commands."""
        return self.path / "control.sock"

    @property
    def lock(self) -> Path:
        """Held by the one agent that serves this directory."""
        return self.path / "agent.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the process that starts the agent again when it was killed."""
        return self.path / "supervisor.lock"

    @property
    def start_lock(self) -> Path:
        """Held by a command while it starts an agent."""
        return self.path / "start.lock"

    @property
    def events(self) -> Path:
        """What happened that matters, one JSON line each."""
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        """What the agent has to say."""
        return self.path / "agent.log"

    @property
    def arena(self) -> Path:
        """How much host memory the last agent gave to evicted data."""
        return self.path / "arena"

    @property
    def settings(self) -> Path:
        """What `moiety set --agent` changed."""
        return self.path / "settings.json"

    @property
    def workloads(self) -> Path:
        """One directory for each workload."""
        return self.path / "w"


def default_path() -> Path:
    """$MOIETY_DIR, else a place that belongs to this user alone."""
    if named := os.environ.get("MOIETY_DIR"):
        return Path(named).absolute()
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "moiety"
    return Path(f"/tmp/moiety-{os.getuid()}")


def system() -> Directory:
    """Where the agent of all users serves: $MOIETY_SYSTEM_DIR, else /run/moiety."""
    return Directory(Path(os.environ.get("MOIETY_SYSTEM_DIR") or SYSTEM).absolute(), shared=True)


def find(which: str | None = None) -> Directory:
    """The directory of the agent that is meant, whether or not it exists.

    `which` is own or system; else $MOIETY_AGENT or a file of settings says it; else MOIETY_DIR
    names one's own; else it is the system's if there is one now, and one's own if not. Raises
    BadSetting and BadConfigFile.
    """
    wanted = which or load().value(WHICH_AGENT).value
    everybodys = system()
    if wanted == "auto":
        named = bool(os.environ.get("MOIETY_DIR"))
        wanted = "system" if not named and os.path.lexists(everybodys.control) else "own"
    directory = everybodys if wanted == "system" else Directory(default_path())
    check_socket_path(directory, directory.workloads / "workload" / "shim.sock")
    return directory


def prepare(directory: Directory) -> None:
    """Create it if need be; raises BadAgentDirectory unless it is ours alone."""
    path = directory.path
    with must_be_usable(directory):
        path.mkdir(mode=directory.folder_mode, parents=True, exist_ok=True)
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise BadAgentDirectory(path=str(path), problem="it is a link or a file")
        if found.st_uid != os.getuid():
            raise BadAgentDirectory(path=str(path), problem=f"it belongs to user {found.st_uid}")
        for each in (path, directory.workloads):
            each.mkdir(mode=directory.folder_mode, exist_ok=True)
            os.chmod(each, directory.folder_mode)  # whatever the umask, or another agent, made it


@contextmanager
def must_be_usable(directory: Directory) -> Iterator[None]:
    """Turn what the system refuses in the directory into BadAgentDirectory."""
    try:
        yield
    except OSError as error:
        path, named = str(directory.path), str(error.filename or "")
        problem = error.strerror or str(error)
        if named and named != path:
            problem = f"{named}: {problem}"
        raise BadAgentDirectory(path=path, problem=problem) from None


def check_socket_path(directory: Directory, path: Path) -> None:
    """Raise BadAgentDirectory if the kernel would not take this path in it for a socket."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_MAX:
        problem = f"a socket's path may have {SOCKET_PATH_MAX} bytes, one there would have {size}"
        raise BadAgentDirectory(path=str(directory.path), problem=problem)
