"""The findings of `moiety doctor` about the machine: its limits, and its containers."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moiety.agent.arena.cgroup_memory import memory_limits
from moiety.agent.arena.host_memory import available_bytes
from moiety.agent.control import protocol
from moiety.agent.control.options import ARENA_SHARE
from moiety.agent.system.paths import find
from moiety.cli.doctor.finding import Finding
from moiety.cli.doctor.talk import talk
from moiety.devices.cgroups import parse
from moiety.devices.native import is_simulated
from moiety.devices.process_identity import sees_host_pids
from moiety.model import errors
from moiety.model.format import format_bytes

ROOT: Final = Path("/")
LITTLE_LOCKED: Final = 1 << 30
MAPS_LEAST: Final = 65530
RUNTIMES: Final = ("docker", "podman", "containerd", "crio", "nerdctl")
TOOLS: Final = ("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime")


def host_memory(root: Path = ROOT) -> Iterator[Finding]:
    """The host memory for evicted data."""
    arena = int(available_bytes() * ARENA_SHARE)
    yield Finding("host memory", "ok", f"{format_bytes(arena)} can take evicted data")
    yield from _cgroup_limit(root)
    if _number(root / "proc/sys/vm/overcommit_memory") == 2:
        text = "the kernel promises no more memory than there is (vm.overcommit_memory = 2)"
        hint = "have a smaller arena (--arena), or sysctl vm.overcommit_memory=0"
        yield Finding("host memory", "warn", text, hint)
    maps = _number(root / "proc/sys/vm/max_map_count")
    if maps is not None and maps < MAPS_LEAST:
        text = f"a process may have only {maps} mappings (vm.max_map_count)"
        yield Finding("mappings", "warn", text, f"sysctl vm.max_map_count={MAPS_LEAST}")


def _cgroup_limit(root: Path) -> Iterator[Finding]:
    """The lowest memory limit of a control group around this process; it holds for the arena."""
    limit = least_limit(root)
    if limit is None:
        yield Finding("memory limit", "ok", "none for this control group")
        return
    total = _meminfo(root, "MemTotal:")
    text = f"this control group may have {format_bytes(limit)}"
    if total and limit < total // 2:
        hint = (
            "evicted data counts there: give the agent a group of its own (moiety agent unit), "
            "or a smaller arena (--arena)"
        )
        yield Finding("memory limit", "warn", f"{text} of {format_bytes(total)}", hint)
    else:
        yield Finding("memory limit", "ok", text)


def least_limit(root: Path = ROOT) -> int | None:
    """The lowest memory limit of this process' control groups, of both versions; None: none."""
    found = memory_limits(root / "proc", root / "sys/fs/cgroup")
    return min((each.limit_bytes for each in found), default=None)


def locked_memory(root: Path = ROOT) -> Iterator[Finding]:
    """The limits of locked memory of this process and of the agent."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    yield _locked(None if soft == resource.RLIM_INFINITY else soft, os.geteuid())
    try:
        with talk(find()) as call:
            pid = call.agent.pid
            arena = call.ask(protocol.Status(), protocol.NodeStatus).arena_bytes
    except (errors.MoietyError, OSError):
        return
    limit = locked_limit(root, pid)
    if limit is not None and limit < arena and _uid_of(root, pid) != 0:
        text = f"the agent (pid {pid}) may lock {format_bytes(limit)}, less than its arena has"
        hint = "LimitMEMLOCK=infinity in its unit, or ulimit -l unlimited before it starts"
        yield Finding("locked memory", "warn", text, hint)


def _locked(limit: int | None, uid: int) -> Finding:
    if limit is None or uid == 0:
        return Finding("locked memory", "ok", "programs may pin any amount")
    text = f"programs may pin {format_bytes(limit)} each"
    hint = (
        "if hand-offs are slow: ulimit -l unlimited, or a memlock line in /etc/security/limits.conf"
    )
    return Finding("locked memory", "warn" if limit < LITTLE_LOCKED else "ok", text, hint)


def locked_limit(root: Path, pid: int) -> int | None:
    """RLIMIT_MEMLOCK of another process; None: unlimited, or not readable."""
    try:
        lines = (root / f"proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return None
    line = next((each for each in lines if each.startswith("Max locked memory")), "")
    words = line.removeprefix("Max locked memory").split()
    return int(words[0]) if words and words[0].isdecimal() else None


def container(root: Path = ROOT) -> Iterator[Finding]:
    """Whether this process runs in a container."""
    about = "container"
    try:
        placed = parse((root / "proc/self/cgroup").read_text())
    except OSError:
        placed = parse("")
    marks = [name for name in (".dockerenv", "run/.containerenv") if (root / name).exists()]
    inside = placed.container or placed.pod or bool(marks)
    if not inside:
        yield Finding(about, "ok", "this is no container")
        return
    what = placed.runtime or ("podman" if "run/.containerenv" in marks else "docker")
    text = f"this is a container ({what}{f' {placed.short}' if placed.container else ''})"
    if sees_host_pids(root / "proc"):
        yield Finding(about, "ok", f"{text}, which sees the host's processes")
    else:
        hint = "an agent belongs on the host, or into a container with --pid=host and --ipc=host"
        yield Finding(about, "warn", f"{text} with a PID namespace of its own", hint)


def toolkit(root: Path = ROOT, path: str | None = None) -> Iterator[Finding]:
    """Whether containers on this machine can have GPUs."""
    about = "container toolkit"
    if is_simulated():
        yield Finding(about, "ok", "not needed for simulated GPUs")
        return
    runtimes = [name for name in RUNTIMES if shutil.which(name, path=path)]
    if not runtimes:
        yield Finding(about, "ok", "not needed: there is no container runtime here")
        return
    tools = [name for name in TOOLS if shutil.which(name, path=path)]
    specs = [
        str(Path("/", spec.relative_to(root)))
        for folder in ("etc/cdi", "var/run/cdi")
        for spec in sorted((root / folder).glob("*nvidia*"))
    ]
    known = ", ".join(runtimes)
    if specs:
        text = f"{known}; CDI specification {specs[0]}" + " and others" * (len(specs) > 1)
        yield Finding(about, "ok", text)
    elif not tools:
        hint = "install nvidia-container-toolkit if containers are to use GPUs"
        yield Finding(about, "warn", f"{known} is here, nvidia-container-toolkit is not", hint)
    elif "docker" in runtimes and not _docker_knows_nvidia(root):
        hint = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        yield Finding(about, "warn", f"{known} does not know of NVIDIA's runtime", hint)
    else:
        yield Finding(about, "ok", f"{known}, {tools[0]}")


def _docker_knows_nvidia(root: Path) -> bool:
    try:
        found = json.loads((root / "etc/docker/daemon.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "nvidia" in (found.get("runtimes") or {})


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _meminfo(root: Path, title: str) -> int:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(title)), 0)


def _uid_of(root: Path, pid: int) -> int | None:
    try:
        return (root / f"proc/{pid}").stat().st_uid
    except OSError:
        return None
