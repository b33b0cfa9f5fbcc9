"""The checks of `moiety doctor`: one function for each subject, which returns its findings."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
from collections.abc import Callable, Iterator
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.core.lease_page import F_SEAL_FUTURE_WRITE
from moiety.agent.system.paths import find, prepare
from moiety.cli.doctor import agents, container_shares, gpus, host
from moiety.cli.doctor.finding import Finding
from moiety.cli.doctor.talk import talk
from moiety.cli.doctor.unused import unused
from moiety.cli.output import count
from moiety.devices.driver import (
    KNOWN_CUDA,
    LIBRARY,
    NEEDED,
    driver_version,
    is_library,
    missing,
    stub_problem,
)
from moiety.devices.loader import find_library
from moiety.devices.native import is_simulated, native_dir, shim_path, simgpu_driver
from moiety.devices.process_identity import user_name
from moiety.model import errors
from moiety.model.format import format_bytes
from moiety.version import __version__

MEMBARRIER_NUMBERS: Final = {"x86_64": 324, "aarch64": 283}
MEMBARRIER_PRIVATE_EXPEDITED: Final = 1 << 3


def product() -> Iterator[Finding]:
    """The versions of moiety and of its Python."""
    python = platform.python_version()
    yield Finding("moiety", "ok", f"version {__version__}, Python {python}, {platform.machine()}")


def native() -> Iterator[Finding]:
    """The libraries that go into programs."""
    shim = shim_path()
    if shim:
        yield Finding("shim", "ok", str(shim))
    else:
        where = native_dir() or "any place that was looked at"
        hint = "install moiety again, or set MOIETY_NATIVE to the directory of a build"
        yield Finding("shim", "bad", f"libmoiety.so is not in {where}", hint)


def driver() -> Iterator[Finding]:
    """The driver library and what is in it."""
    if is_simulated():
        path = simgpu_driver()
        if path is None:
            hint = "install moiety again, or unset MOIETY_SIMGPU"
            yield Finding("driver", "bad", "MOIETY_SIMGPU is set but simgpu is not there", hint)
            return
    else:
        path = find_library(LIBRARY)
        if path is None:
            hint = "install the NVIDIA driver, or try moiety without a GPU: MOIETY_SIMGPU=A100-80"
            yield Finding("driver", "bad", f"the loader does not find {LIBRARY}", hint)
            return
        if not is_library(path):
            hint = "install the NVIDIA driver again, and check LD_LIBRARY_PATH"
            yield Finding("driver", "bad", f"{path} is not a library for this machine", hint)
            return
        if problem := stub_problem(path):
            hint = "take its folder out of LD_LIBRARY_PATH, and install the NVIDIA driver"
            yield Finding("driver", "bad", f"{path} {problem}", hint)
            return
    version = driver_version(path)
    yield Finding("driver", "ok", f"{path}, {_in_words(version)}")
    if is_simulated():
        text = (
            "programs on NVIDIA's own CUDA runtime end with error 801 or 103 here: it asks the "
            "driver for a proof that it is NVIDIA's, which simgpu never gives"
        )
        yield Finding("CUDA runtime", "ok", text)
    if lacking := missing(path):
        named = ", ".join(f"{name} (there since CUDA {NEEDED[name]})" for name in lacking)
        hint = "install driver 470 or newer (CUDA 11.4)"
        yield Finding("driver calls", "bad", f"the driver lacks {named}", hint)
    elif version > KNOWN_CUDA:
        text = (
            f"{cuda(version)} is newer than {cuda(KNOWN_CUDA)}, the newest that moiety knows all of"
        )
        hint = (
            "moiety doctor names programs that make one of the new calls; their memory stays on "
            "the GPU"
        )
        yield Finding("driver calls", "warn", text, hint)
    else:
        yield Finding("driver calls", "ok", "everything that sharing needs is there")


def cuda(version: int) -> str:
    """The usual form of the number that cuDriverGetVersion returns."""
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def _in_words(version: int) -> str:
    """What driver_version said."""
    if version == 0:
        return "which does not tell its version"
    return cuda(version) if version > 0 else f"which answers with error {-version}"


def agent() -> Iterator[Finding]:
    """The daemon and its directory."""
    try:
        directory = find()
        everybodys = directory.shared and directory.path.exists()
        if not everybodys:
            prepare(directory)
    except errors.MoietyError as error:
        yield Finding("directory", "bad", error.what, error.hint)
        return
    hint = "set MOIETY_DIR to another directory"
    if everybodys:
        whose = user_name(directory.path.stat().st_uid)
        yield Finding("directory", "ok", f"{directory.path}, for all users, of {whose}")
    elif not os.access(directory.path, os.W_OK):
        yield Finding("directory", "bad", f"{directory.path} cannot be written to", hint)
    elif os.statvfs(directory.path).f_bavail == 0:
        yield Finding("directory", "bad", f"the disk with {directory.path} is full", hint)
    else:
        yield Finding("directory", "ok", str(directory.path))
    try:
        with talk(directory) as call:
            yield Finding("agent", "ok", f"version {call.agent.product}, pid {call.agent.pid}")
    except errors.NoAgent:
        yield Finding("agent", "ok", "not running; moiety run starts one")
    except errors.AgentSilent as error:
        hint = f"kill -CONT continues a stopped agent; its log is {directory.log}"
        yield Finding("agent", "bad", error.what, hint)
    except errors.MoietyError as error:
        yield Finding("agent", "bad", error.what, error.hint)


def programs() -> Iterator[Finding]:
    """What running programs hold without need, and calls that moiety does not know or that pin."""
    try:
        with talk(find()) as call:
            rows = call.ask(protocol.Ps(), protocol.Processes).rows
    except errors.MoietyError:
        return
    yield from unused(rows)
    about = "programs"
    unknown = {row.pid: row for row in rows if row.unknown_calls}
    for row in unknown.values():
        names = ", ".join(row.unknown) or "functions without a name"
        times = count(row.unknown_calls, "time")
        text = f"{row.program} (pid {row.pid}) used unknown functions {times}: {names}"
        hint = "the program continues, but its memory stays on the GPU; please report these names"
        yield Finding(about, "warn", text, hint)
    for row in {row.pid: row for row in rows if row.pinned and not row.unknown_calls}.values():
        text = f"{row.program} (pid {row.pid}) called {row.pinned}, so its memory cannot be evicted"
        yield Finding(
            about, "warn", text, "the program continues, but none of its memory leaves the GPU"
        )
    for row in rows:
        if row.pinned_bytes and not row.pinned:
            calls = ", ".join(row.pins) or "a call that the agent did not see"
            stay = f"{format_bytes(row.pinned_bytes)} of GPU {row.gpu} stay there by {calls}"
            yield Finding(about, "ok", f"{row.program} (pid {row.pid}): {stay}")
    if rows and not unknown:
        number = count(len({row.pid for row in rows}), "program")
        yield Finding(about, "ok", f"{number}, and moiety knows every call that they made")


def kernel() -> Iterator[Finding]:
    """System calls that the gate and the lease page rely on."""
    number = MEMBARRIER_NUMBERS.get(platform.machine())
    offered = -1
    if number is not None:
        offered = ctypes.CDLL(None, use_errno=True).syscall(number, 0, 0, 0)
    if offered > 0 and offered & MEMBARRIER_PRIVATE_EXPEDITED:
        yield Finding("membarrier", "ok", "offered by the kernel")
    else:
        hint = "calls cost a few nanoseconds more; allow membarrier in the seccomp profile"
        yield Finding("membarrier", "warn", "the kernel does not offer it, or forbids it", hint)
    yield _sealing()


def _sealing() -> Finding:
    hint = "moiety needs Linux 5.3 or newer and memfd_create"
    try:
        fd = os.memfd_create("doctor", os.MFD_ALLOW_SEALING)
    except OSError as error:
        return Finding("memfd", "bad", f"memfd_create fails: {error.strerror}", hint)
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
    except OSError:
        text = "cannot be sealed against later writers; a read-only descriptor is used instead"
        return Finding("memfd", "warn", text, hint)
    finally:
        os.close(fd)
    return Finding("memfd", "ok", "can be sealed")


CHECKS: Final[tuple[Callable[[], Iterator[Finding]], ...]] = (
    product,
    native,
    driver,
    gpus.gpus,
    gpus.mps,
    gpus.strangers,
    agent,
    agents.agents,
    agents.residue,
    programs,
    host.host_memory,
    host.locked_memory,
    host.container,
    host.toolkit,
    container_shares.shares,
    kernel,
)
