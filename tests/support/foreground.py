"""A real agent in a process of its own, over GPUs that a few lines of C pretend to have.

Its host memory is pretended too: tests that let it prepare some say so with --arena-ready.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import Directory
from moiety.devices.interface import uuid_bytes
from moiety.model import errors
from moiety.model.share import Share
from moiety.testing.waiting import DEADLINE_S, until

UUID = "GPU-{:08x}-0000-4000-8000-000000000000"

NVML_SOURCE = """
#include <stdio.h>
#include <string.h>
static unsigned long long totals[] = {%s};
struct memory { unsigned long long total, free, used; };
int nvmlInitWithFlags(unsigned flags) { (void)flags; return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "pretended"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size)
{ snprintf(text, size, "550.0"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count)
{ *count = sizeof totals / sizeof *totals; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{ *handle = (void *)(unsigned long)(index + 1); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory)
{
    memory->total = memory->free = totals[(unsigned long)handle - 1];
    memory->used = 0;
    return 0;
}
int nvmlDeviceGetName(void *handle, char *text, unsigned size)
{ (void)handle; snprintf(text, size, "Pretended GPU"); return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size)
{
    unsigned index = (unsigned long)handle - 1;
    snprintf(text, size, "GPU-%%08x-0000-4000-8000-000000000000", index);
    return 0;
}
"""


def uuid_of(gpu: int) -> bytes:
    """The UUID of a pretended GPU, as the driver would give it."""
    return uuid_bytes(UUID.format(gpu))


def compile_library(source: str, path: Path) -> None:
    """A shared library from C; raises FileNotFoundError without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    command = [compiler] if compiler else [sys.executable, "-m", "ziglang", "cc"]
    name = f"-Wl,-soname,{path.name}"
    given = [*command, "-shared", "-fPIC", name, "-x", "c", "-", "-o", str(path)]
    subprocess.run(given, input=source.encode(), check=True)


def pretended_native(folder: Path, *total_bytes: int) -> Path:
    """A native directory: an NVML with GPUs of these sizes, a driver and a shim that do nothing."""
    simgpu = folder / "simgpu"
    simgpu.mkdir(parents=True)
    totals = ", ".join(f"{total}ull" for total in total_bytes)
    compile_library(NVML_SOURCE % totals, simgpu / "libnvidia-ml.so.1")
    compile_library("int cuDriverGetVersion(int *v) { *v = 12040; return 0; }", folder / "cuda.so")
    shutil.move(folder / "cuda.so", simgpu / "libcuda.so.1")
    compile_library("int moiety_is_here;", folder / "libmoiety.so")
    return folder


class AgentProcess:
    """`moiety agent start --foreground` in a directory of its own; use as a context manager."""

    def __init__(
        self, folder: Path, native: Path, arguments: Sequence[str] = (), *, system: bool = False
    ) -> None:
        """`system`: it serves all users."""
        self.directory = Directory(folder, shared=system)
        self.arguments = ["--arena-ready", "0", *arguments, *["--system"] * system]
        self.environment = dict(os.environ)
        self.environment |= {
            "MOIETY_CONFIG": "",
            "MOIETY_SYSTEM_DIR" if system else "MOIETY_DIR": str(folder),
            "MOIETY_NATIVE": str(native),
            "MOIETY_SIMGPU": "pretended",
            "MOIETY_HOST_MEMORY": "128GiB",
            "MOIETY_SIMGPU_STATE": str(native / "state"),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        self.environment.pop("MOIETY_AGENT_ARGS", None)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        with open(self._complaints, "wb") as complaints:
            self.process = subprocess.Popen(self._command, env=self.environment, stderr=complaints)
        until(self._answers, "the agent")

    def refusal(self) -> tuple[int, str]:
        """Start it in vain: its exit code, and what it says."""
        ended = subprocess.run(
            self._command,
            env=self.environment,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
        return ended.returncode, ended.stderr.decode()

    def call(self) -> Call:
        """A conversation with it."""
        return Call(self.directory)

    def ps(self) -> list[ProcessRow]:
        """Its rows now."""
        with self.call() as call:
            return call.ask(protocol.Ps(), protocol.Processes).rows

    def status(self) -> protocol.NodeStatus:
        """Its state now."""
        with self.call() as call:
            return call.ask(protocol.Status(), protocol.NodeStatus)

    def workload(self, limit_bytes: int | None = None) -> str:
        """A workload whose first process is this one; returns the path of its socket."""
        with self.call() as call:
            request = protocol.CreateWorkload(
                "test", ["test"], "/", Share(memory_limit_bytes=limit_bytes)
            )
            return call.ask(request, protocol.Created).socket

    def kill(self) -> None:
        """As kill -9 does."""
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> int:
        """Send a signal that ends it; returns its exit code."""
        assert self.process
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Until it has ended by itself; returns its exit code."""
        assert self.process
        return self.process.wait(DEADLINE_S)

    def log(self) -> str:
        """What it wrote down."""
        return self.directory.log.read_text() if self.directory.log.exists() else ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()  # it may only be slow
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process and self.process.poll() is None:
            self.kill()

    @property
    def _command(self) -> list[str]:
        return [sys.executable, "-m", "moiety.agent", *self.arguments]

    @property
    def _complaints(self) -> Path:
        return self.directory.path.with_suffix(".stderr")

    def _answers(self) -> bool:
        assert self.process
        if self.process.poll() is not None:
            raise AssertionError(self._complaints.read_text() + self.log())
        try:
            self.call().close()
        except errors.NoAgent:
            return False
        return True
