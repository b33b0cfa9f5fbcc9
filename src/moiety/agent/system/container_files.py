"""The files of a share that containers get: they are there before any container, and after all.

    <containers>/<name>/           the owner's alone, 0700
        workload.json              what is promised, for the next agent
        clients/                   who is connected, for the next agent
        preload                    what the container sees as /etc/ld.so.preload
        socket/shim.sock           what the container sees as /opt/moiety/socket

They do not lie in the agent's directory, which may be gone after the machine was restarted, while
containers and their specifications are still there. Inside a container every user may connect:
the socket is only in containers that have the share. Outside, only the owner reaches it.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from moiety.agent.system import permissions, processes
from moiety.agent.system.paths import Directory, check_socket_path
from moiety.devices.cgroups import parse

SOCKETS: Final = "socket"
PRELOAD: Final = "preload"
SOCKET_MODE: Final = 0o666
_MOUNTED: Final = re.compile(r"/[a-z-]*containers/([0-9a-f]{12})[0-9a-f]{52}/")
"""The folder in which Docker and Podman keep the files of one container."""
SHIM_INSIDE: Final = "/opt/moiety/libmoiety.so"
SOCKETS_INSIDE: Final = "/opt/moiety/socket"
PRELOAD_INSIDE: Final = "/etc/ld.so.preload"


def root(directory: Directory) -> Path:
    """The folder of the files of all shares."""
    return directory.state / "containers"


def folder(directory: Directory, name: str) -> Path:
    """Where the files of one share lie, whether or not they exist."""
    return root(directory) / name


def folders(directory: Directory) -> list[Path]:
    """The folders of all shares that were made here and not removed."""
    return list(root(directory).glob("*/"))


def make(directory: Directory, name: str, owner: processes.Peer) -> Path:
    """Make the files of a share, or repair them; raises BadAgentDirectory or OSError."""
    found = folder(directory, name)
    check_socket_path(directory, found / SOCKETS / "shim.sock")
    if not found.parent.exists():
        found.parent.mkdir(parents=True)
        os.chmod(found.parent, directory.folder_mode)
    found.mkdir(mode=0o700, exist_ok=True)
    os.chmod(found, 0o700)
    (found / "clients").mkdir(mode=0o700, exist_ok=True)
    (found / SOCKETS).mkdir(exist_ok=True)
    os.chmod(found / SOCKETS, 0o755)
    (found / PRELOAD).write_text(f"{SHIM_INSIDE}\n")
    os.chmod(found / PRELOAD, 0o644)
    if owner.uid not in (0, os.getuid()):
        with contextlib.suppress(OSError):  # then only a runtime that is root can mount it
            permissions.let_only(found, owner.uid)
    return found


def keeps_out(pods: list[str], pid: int, proc: Path = Path("/proc")) -> str:
    """Why a process may not use the share of these pods; empty: it may."""
    if not pods:
        return ""
    found = pod_of(pid, proc)
    if found.replace("-", "") in (pod.replace("-", "") for pod in pods):
        return ""
    return f"pid {pid} is in {f'pod {found}' if found else 'no pod'}, and it is another pod's"


def pod_of(pid: int, proc: Path = Path("/proc")) -> str:
    """The UID of the pod of Kubernetes that a process is in; empty: of none, or it has ended."""
    try:
        return parse(_read(f"{proc}/{pid}/cgroup")).pod
    except OSError:
        return ""


def stranger(pid: int, proc: Path = Path("/proc")) -> str:
    """The foreign pod of Kubernetes that a process is in; empty: it is in none.

    Not foreign is a process in the agent's own pod, or one that sees the machine's files: a
    container runtime starts its hooks in the pod's control group, but not among its files.
    """
    found = pod_of(pid, proc)
    if not found or found == pod_of(os.getpid(), proc):
        return ""
    try:
        if os.readlink(f"{proc}/{pid}/ns/mnt") == os.readlink(f"{proc}/1/ns/mnt"):
            return ""
    except OSError:
        pass  # an unknown process counts as foreign
    return found


def container_of(pid: int, proc: Path = Path("/proc")) -> str:
    """The short id of the container that a process runs in, as its runtime shows it; "": none.

    Without root, and without version 2 of control groups, a container has no group of its own.
    Then the files that its runtime mounts into it (/etc/hostname, say) lead to the id.
    """
    try:
        found = parse(_read(f"{proc}/{pid}/cgroup")).short
        if found:
            return found
        if os.readlink(f"{proc}/{pid}/ns/mnt") == os.readlink(f"{proc}/self/ns/mnt"):
            return ""
        mounted = _MOUNTED.search(_read(f"{proc}/{pid}/mountinfo"))
    except OSError:
        return ""
    return mounted[1] if mounted else ""


def _read(path: str) -> str:
    """A file of /proc; not by a Path, which would intern the pid of each process that ever asked.

    Nor as text: each text file leaves the name of an attribute of its codec in the interpreter's
    cache of attributes.
    """
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")
