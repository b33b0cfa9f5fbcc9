"""Runs a command with a network, mounts and processes of its own.

    python tests/kube/inside.py COMMAND...

In there all ports are free, what is mounted is seen by nobody else, Kubernetes' usual folders
(/run, /var/lib/kubelet, /var/log, /etc/cdi) are empty ones, and whatever the command leaves behind
ends with it. That holds after SIGKILL, too: what is left are a folder in /tmp and empty cgroups,
which the next run removes. Only root can have that: for others it says so, runs nothing and ends
with 77. MOIETY_KUBE_BED names the folder, inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VARIABLE: Final = "MOIETY_KUBE_BED"
PREFIX: Final = "moiety-kube-"
OWNER: Final = "owner"
LEFT_OUT: Final = 77
"""the exit code of what was not run, as automake has it"""
CGROUPS: Final = Path("/sys/fs/cgroup")
SERVICE: Final = "10.250.0.1"
"""The API server's address as pods know it: the first of the services' addresses."""
NODE: Final = "10.250.1.1"
"""The node's address. Kubernetes takes none in 127.0.0.0/8."""
FOLDERS: Final = {
    "kubelet": "/var/lib/kubelet",
    "moiety": "/var/lib/moiety",
    "log": "/var/log",
    "cdi": "/etc/cdi",
}
KERNEL: Final = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What a kubelet sets for the whole machine. Here it reads that all is set already."""
PR_SET_PDEATHSIG: Final = 1
SIOCSIFADDR, SIOCSIFFLAGS, SIOCSIFNETMASK = 0x8916, 0x8914, 0x891C
IFF_UP: Final = 1


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def started_at(pid: int) -> str:
    """When a process began, as the kernel says it; empty: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def cgroups(name: str) -> Iterator[Path]:
    """The folders of a cgroup: one on version 2, several on version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS / name
        return
    for hierarchy in CGROUPS.iterdir():
        if not hierarchy.is_symlink() and (hierarchy / "cgroup.procs").exists():
            yield hierarchy / name


def make_cgroups(name: str) -> None:
    """A cgroup in every hierarchy, in which there may be others."""
    for found in cgroups(name):
        found.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # it has no such controllers: then they are not needed
            if (found / "cgroup.controllers").exists():
                said = (found.parent / "cgroup.controllers").read_text().split()
                for folder in (found.parent, found):
                    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{x}" for x in said))
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (found / file).exists() and not (found / file).read_text().strip():
                    (found / file).write_text((found.parent / file).read_text())


def remove_cgroups(name: str) -> None:
    """All of them, from the leaves up; what is still in use stays."""
    for found in cgroups(name):
        for folder, _, _ in os.walk(found, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def remove(scratch: Path) -> None:
    """What is left of a run when its processes are gone."""
    remove_cgroups(scratch.name)
    shutil.rmtree(scratch, ignore_errors=True)


def remove_stale(place: Path) -> None:
    """What runs that were killed left behind in this folder."""
    for scratch in place.glob(f"{PREFIX}*"):
        try:
            owner = (scratch / OWNER).open()
        except OSError:
            continue  # it is only being made, or just being removed
        with owner:
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # process ids would not do: each run sees its own only
            remove(scratch)


def make_scratch(place: Path) -> tuple[Path, int]:
    """A folder for a run, and the descriptor that must stay open as long as it is needed."""
    scratch = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    scratch.chmod(0o755)
    for name in FOLDERS:
        (scratch / name).mkdir()
    owner = scratch / f"{OWNER}.new"
    lock = os.open(owner, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    owner.rename(scratch / OWNER)
    return scratch, lock


def request(name: str, payload: bytes) -> bytes:
    """What the kernel takes for a change to a network interface."""
    return struct.pack("16s", name.encode()) + payload.ljust(24, b"\0")


def address(text: str) -> bytes:
    """An IPv4 address as the kernel takes it."""
    return struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(text))


def bring_up_network() -> None:
    """The loopback interface with its usual address, the services' first one and the node's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request("lo", struct.pack("=H", IFF_UP)))
        for alias, found in (("lo:1", SERVICE), ("lo:2", NODE)):
            fcntl.ioctl(any_socket, SIOCSIFADDR, request(alias, address(found)))
            fcntl.ioctl(any_socket, SIOCSIFNETMASK, request(alias, address("255.255.255.255")))


def mount(*arguments: str) -> None:
    """Run mount."""
    subprocess.run(["mount", *arguments], check=True)


def prepare(scratch: Path) -> None:
    """Give the namespaces that this process is in their network and their folders."""
    bring_up_network()
    mount("--make-rshared", "/")  # among ourselves: pods may share what they mount
    mount("-t", "tmpfs", "-o", "mode=755", "run", "/run")
    Path("/run/lock").mkdir()
    for name, place in FOLDERS.items():
        Path(place).mkdir(exist_ok=True)
        mount("--bind", str(scratch / name), place)
    settings = scratch / "kernel"
    settings.mkdir()
    for setting, value in KERNEL.items():
        file = settings / setting.replace("/", "-")
        file.write_text(f"{value}\n")
        mount("--bind", str(file), f"/proc/sys/{setting}")


def init(scratch: Path, command: list[str]) -> int:
    """The first process inside: it starts the command and buries whatever dies."""
    prepare(scratch)
    child = subprocess.Popen(command, env={**os.environ, VARIABLE: str(scratch)})
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: child.send_signal(number))
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def run(command: list[str], *, scratch: Path | None = None) -> int:
    """The command's exit code; `scratch` as `make_scratch` made it, or it is made."""
    if os.geteuid() != 0:
        print("left out: only root can have namespaces with a kubelet in them", file=sys.stderr)
        return LEFT_OUT
    if scratch is None:
        remove_stale(Path(tempfile.gettempdir()))
        scratch, _ = make_scratch(Path(tempfile.gettempdir()))
    make_cgroups(scratch.name)
    options = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    own = [sys.executable, str(Path(__file__).resolve()), "--init", str(scratch)]
    try:
        guarded = ["setpriv", "--pdeathsig", "KILL", "unshare", *options]
        process = subprocess.Popen([*guarded, "--", *own, *command])
        # Ctrl-C reaches the command itself; SIGTERM is handed on, and then we wait for its end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _: stop(process.pid, number))
        return process.wait()
    finally:
        remove(scratch)


def stop(unshare: int, number: int) -> None:
    """Tell the first process inside, as which a signal to unshare would be lost."""
    for child in Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split():
        os.kill(int(child), number)


def main(arguments: list[str]) -> int:
    """As the first lines say."""
    if arguments[:1] == ["--init"]:
        return init(Path(arguments[1]), arguments[2:])
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    die_with_parent()
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
