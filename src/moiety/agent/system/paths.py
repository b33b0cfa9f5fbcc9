"""The agent's directories: where its sockets, locks and workloads lie, and what outlives them.

A user's own agent keeps them to itself. In the directory of the system's agent all users may reach
the control socket and their own workloads' sockets, and none may list the folders.

Sockets and locks are gone after a restart of the machine. What is still of use then (events, what
`moiety set --agent` changed, shares for containers, the log) lies in `state` and `logs`, which are
folders of their own only if the directory is the usual one. If MOIETY_DIR or MOIETY_SYSTEM_DIR
names another directory, they lie in it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.config.places import is_any_there, user_folder
from moiety.model.errors import BadAgentDirectory

SOCKET_PATH_MAX = 107
"""Bytes that fit into sockaddr_un, less the final NUL."""
ANY: Final = "auto"
"""The setting `cli.agent` where nothing sets it; a test compares."""
SYSTEM: Final = "/run/moiety"
SYSTEM_STATE: Final = "/var/lib/moiety"
SYSTEM_LOGS: Final = "/var/log/moiety"


@dataclass(frozen=True, slots=True)
class Directory:
    """The paths in one agent's directory."""

    path: Path
    shared: bool = False
    """True if the system's agent serves here, for all users."""

    @property
    def folder_mode(self) -> int:
        """The mode of this folder and of the workloads' folders."""
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
        return self.state / "events.jsonl"

    @property
    def log(self) -> Path:
        """The agent's log."""
        return self.logs / "agent.log"

    @property
    def arena(self) -> Path:
        """How much host memory the last agent gave to evicted data."""
        return self.path / "arena"

    @property
    def settings(self) -> Path:
        """What `moiety set --agent` changed."""
        return self.state / "settings.json"

    @property
    def is_usual(self) -> bool:
        """Whether this is where such an agent is looked for, unless the environment names it."""
        if self.shared:
            return self.path == Path(SYSTEM)
        return not os.environ.get("MOIETY_DIR") and self.path == default_path()

    @property
    def state(self) -> Path:
        """The folder of what outlives a restart of the machine."""
        if not self.is_usual:
            return self.path
        if self.shared:
            return Path(SYSTEM_STATE)
        # Several machines may have one home directory, and each has its agent.
        machine = os.uname().nodename.partition(".")[0] or "localhost"
        folder = user_folder("XDG_STATE_HOME") / "moiety" / machine
        return folder if _may_be_made(folder) else self.path

    @property
    def logs(self) -> Path:
        """The folder of the log."""
        return Path(SYSTEM_LOGS) if self.shared and self.is_usual else self.state

    @property
    def workloads(self) -> Path:
        """One directory for each workload."""
        return self.path / "w"


def default_path() -> Path:
    """$MOIETY_DIR, else a place that belongs to this user alone."""
    if named := os.environ.get("MOIETY_DIR"):
        return Path(named).absolute()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
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
    wanted = which or _said()
    everybodys = system()
    if wanted == ANY:
        named = bool(os.environ.get("MOIETY_DIR"))
        wanted = "system" if not named and os.path.lexists(everybodys.control) else "own"
    directory = everybodys if wanted == "system" else Directory(default_path())
    check_socket_path(directory, directory.workloads / "workload" / "shim.sock")
    return directory


def _said() -> str:
    """Which agent the settings name. Most say nothing, and reading them takes a command's time."""
    if "MOIETY_AGENT" not in os.environ and not is_any_there(os.environ):
        return ANY
    from moiety.config.load import load
    from moiety.config.table import WHICH_AGENT

    return str(load().value(WHICH_AGENT).value)


def prepare(directory: Directory) -> None:
    """Create the folders if need be; raises BadAgentDirectory if they are not this user's own."""
    folders = dict.fromkeys((directory.path, directory.state, directory.logs, directory.workloads))
    with must_be_usable(directory):
        for path in folders:
            path.mkdir(mode=directory.folder_mode, parents=True, exist_ok=True)
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode):
                raise _unusable(directory, "it is a link or a file", path)
            if found.st_uid != os.getuid():
                raise _unusable(directory, f"it belongs to user {found.st_uid}", path)
            os.chmod(path, directory.folder_mode)  # whatever the umask, or another agent, made it


def _may_be_made(folder: Path) -> bool:
    """Whether a folder is, or can be, this user's own: not in another's home (after `sudo`)."""
    for above in (folder, *folder.parents):
        try:
            found = os.stat(above)
        except FileNotFoundError:
            continue
        except OSError:
            return False
        return found.st_uid == os.getuid() and os.access(above, os.W_OK | os.X_OK)
    return False


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
        raise _unusable(directory, problem) from None


def check_socket_path(directory: Directory, path: Path | str) -> None:
    """Raise BadAgentDirectory if the kernel would not take this path in it for a socket."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_MAX:
        problem = f"a socket's path may have {SOCKET_PATH_MAX} bytes, one there would have {size}"
        raise _unusable(directory, problem)


def _unusable(directory: Directory, problem: str, path: Path | None = None) -> BadAgentDirectory:
    named = str(path or directory.path)
    return BadAgentDirectory(path=named, problem=problem, shared=directory.shared)
