"""What the agent itself costs: its memory and its processor time, with 64 tenants that do nothing.

The tenants are processes of their own, each in a workload of its own, with a context and 1 MiB on
one simulated GPU on which all fit. The baseline is the same agent before the first of them came.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.figure import Figure
from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.system.paths import Directory
from moiety.testing.node import Node
from tests.support.native import compile_c, native_dir

GPU = "A100-80:memory=1GiB,residue=2MiB"
TENANTS = 64
SETTLE_S, WINDOW_S = 2.0, 20.0
ROOT = Path(__file__).resolve().parents[1]


def resident_mib(pid: int) -> float:
    """The memory of a process that is really there."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no memory")


def cpu_s(pid: int) -> float:
    """Its processor time so far, all threads, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def idle_percent(pid: int) -> float:
    """Of one processor, while nothing happens."""
    time.sleep(SETTLE_S)
    before, began_s = cpu_s(pid), time.monotonic()
    time.sleep(WINDOW_S)
    return (cpu_s(pid) - before) / (time.monotonic() - began_s) * 100


def start_tenant(node: Node, native: Path, program: Path) -> subprocess.Popen[str]:
    """One more process, in a workload of its own; it is idle when this returns."""
    with Call(Directory(node.directory)) as call:
        wanted = protocol.CreateWorkload("idle", ["idle"], "/")
        socket = call.ask(wanted, protocol.Created).socket
    tenant = node.start(
        [str(program)],
        stdin=True,
        env={
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "LD_PRELOAD": str(native / "libmoiety.so"),
            "MOIETY_SOCKET": socket,
        },
    )
    assert tenant.stdout is not None
    if tenant.stdout.readline() != "idle\n":
        raise AssertionError(f"a tenant did not start: {tenant.communicate()[1]}")
    return tenant


def measure() -> list[Figure]:
    """Memory and idle processor time of an agent with 64 tenants, and without any."""
    native = native_dir()
    if native is None:
        raise FileNotFoundError("the native libraries are not built")
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        driver = str(native / "simgpu" / "libcuda.so.1")
        program = folder / "idle"
        flags = (f"-I{ROOT / 'native'}", driver)
        compile_c([ROOT / "bench" / "native" / "idle.c"], program, flags=flags)
        with Node(folder, GPU, native=native) as node:
            agent = node.start_agent().pid
            alone_percent, alone_mib = idle_percent(agent), resident_mib(agent)
            for _ in range(TENANTS):
                start_tenant(node, native, program)
            if (there := len(node.json("ps"))) != TENANTS:
                raise AssertionError(f"{there} tenants of {TENANTS} are there")
            percent, mib = idle_percent(agent), resident_mib(agent)
    note = f"{TENANTS} idle tenants; baseline: the same agent without tenants; {GPU}"
    cores = f"{os.cpu_count()} cores; of one of them"
    return [
        Figure("agent_rss_mib", mib, "MiB", 60, "lower", "simgpu", 1, alone_mib, note),
        Figure(
            "agent_idle_cpu_percent",
            percent,
            "%",
            0.2,
            "lower",
            "simgpu",
            1,
            alone_percent,
            f"{note}; {cores}",
        ),
    ]
