"""The findings of `moiety doctor` about agents: other agents, older ones, and their residue."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moiety.agent.system import container_files, processes
from moiety.agent.system.paths import Directory, find, system
from moiety.cli.doctor.finding import Finding
from moiety.cli.doctor.talk import talk
from moiety.cli.output import count
from moiety.devices.native import simgpu_state_dir
from moiety.model import errors
from moiety.model.format import format_bytes
from moiety.version import __version__

ROOT: Final = Path("/")


def directories(root: Path = ROOT) -> list[Directory]:
    """The readable directories of agents that may be on this machine, this user's first."""
    own = find()
    found = {own.path: own}
    candidates = [system().path, *sorted((root / "tmp").glob("moiety-*"))]
    candidates += sorted((root / "run/user").glob("*/moiety"))
    for path in candidates:
        try:
            is_one = (path / "agent.lock").exists() or (path / "control.sock").exists()
        except OSError:
            continue  # another user's
        if is_one and path not in found:
            found[path] = Directory(path, shared=path == system().path)
    return list(found.values())


def agents(root: Path = ROOT) -> Iterator[Finding]:
    """Agents other than the agent that commands of this user talk to."""
    about = "other agents"
    quiet = True
    for directory in directories(root):
        try:
            with talk(directory) as call:
                here = call.agent
                if directory.path == find().path:
                    continue
                quiet = False
                text = (
                    f"an agent of version {here.product} runs in {directory.path}, pid {here.pid}"
                )
                hint = f"MOIETY_DIR={directory.path} moiety agent stop, if no program needs it"
                level = "ok" if here.product == __version__ else "warn"
                yield Finding(about, level, text, hint)
        except errors.AgentVersion as error:
            quiet = False
            hint = f"stop that agent once its programs have ended ({error.hint})"
            yield Finding(about, "warn", f"{directory.path}: {error.what}", hint)
        except errors.NoAgent:
            if stale := _stale(directory):
                quiet = False
                living, _ = workloads(directory)
                hint = f"rm -r {directory.path}"
                if living or directory.path == find().path:
                    hint = f"MOIETY_DIR={directory.path} moiety agent start: it tidies up"
                text = f"{directory.path} is of an agent that was killed: {', '.join(stale)}"
                yield Finding(about, "warn", text, hint)
        except (errors.MoietyError, OSError) as error:
            if directory.path == find().path:
                continue  # `agent` says so
            quiet = False
            what = error.what if isinstance(error, errors.MoietyError) else str(error)
            yield Finding(about, "warn", f"{directory.path}: {what}", "moiety agent status")
    if quiet:
        yield Finding(about, "ok", "none")


def _stale(directory: Directory) -> list[str]:
    """Sockets without a listener, and locks that no process holds."""
    found = []
    for path in (directory.control, directory.lock):
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISSOCK(mode) or not _is_held(path):
            found.append(path.name)
    return found


def _is_held(lock: Path) -> bool:
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True  # unknown
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def residue(shm: Path = Path("/dev/shm")) -> Iterator[Finding]:
    """Files that ended programs and agents left behind."""
    about = "residue"
    quiet = True
    try:
        directory = find()
    except errors.MoietyError:
        return  # the finding of `agent` describes the error
    if not _answers(directory):
        living, dead = workloads(directory)
        if living:
            quiet = False
            text = f"{count(living, 'program')} of an agent that is gone still run and wait for one"
            yield Finding(about, "warn", text, "moiety agent start")
        if dead:
            quiet = False
            text = f"{directory.workloads} has {count(dead, 'workload')} of programs that are gone"
            yield Finding(about, "warn", text, "the next agent removes them")
    for folder in sorted(shm.glob("moiety-simgpu-*")):
        size = _size(folder)
        if folder != simgpu_state_dir() and size and _is_unused(folder):
            quiet = False
            text = f"{folder} has {format_bytes(size)} of simulated GPUs that no process uses"
            yield Finding(about, "warn", text, f"rm -r {folder}")
    if quiet:
        yield Finding(about, "ok", "nothing was left behind")


def recorded(directory: Directory) -> set[int]:
    """The living processes that the agents of a directory have written down, of every version."""
    folders = [*directory.workloads.glob("*"), *container_files.folders(directory)]
    files = [file for folder in folders for file in (folder / "clients").glob("*")]
    return {int(file.name) for file in files if _lives(file)}


def workloads(directory: Directory) -> tuple[int, int]:
    """How many workloads of a directory still have a process, and how many have none."""
    living = dead = 0
    for folder in directory.workloads.glob("*/"):
        alive = any(_lives(file) for file in (folder / "clients").glob("*"))
        living, dead = living + alive, dead + (not alive)
    return living, dead


def _lives(file: Path) -> bool:
    try:
        return processes.is_alive(int(file.name), int(file.read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return False


def _answers(directory: Directory) -> bool:
    try:
        with talk(directory):
            return True
    except errors.NoAgent:
        return False
    except (errors.MoietyError, OSError):
        return True


def _size(folder: Path) -> int:
    try:
        return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
    except OSError:
        return 0


def _is_unused(folder: Path) -> bool:
    """Whether no visible process has its files mapped."""
    name = f"{folder}/"
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if name in maps.read_text():
                return False
        except OSError:
            continue
    return True
