"""How long after `suspend` a GPU is free: until the agent says that all has left, over the link.

One program has 1 GiB of data, and computes. It is suspended and resumed again and again, and checks
every word at the end. The least possible is its bytes at the link's rate.
"""

from __future__ import annotations

import signal
import statistics
import tempfile
import time
from pathlib import Path

from bench.figure import Figure
from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.system.paths import Directory
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from moiety.testing.waiting import until
from tests.support.native import compile_c

ROOT = Path(__file__).resolve().parents[1]
SIZE = 1 << 30
LINK_BYTES_PER_S = 1_000_000_000
GPU = "A100-80:memory=2GiB,link=1GB/s"
ROUNDS = 4
COLD = 1
"""Rounds that are left out: host memory is touched for the first time."""
FOREVER = "1000000"


def measure() -> list[Figure]:
    """The time until all has left, and until all is back, over what the link alone takes."""
    out: list[float] = []
    back: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{ROOT / 'native'}", f"{simgpu_dir()}/libcuda.so.1", "-O2")
        compile_c([ROOT / "demo" / "worker.c"], folder / "worker", flags=flags)
        kernels = Path(str(simgpu_dir())) / "kernels.elf"
        with Node(folder, GPU) as node:
            node.start_agent()
            command = [folder / "worker", kernels, str(SIZE), FOREVER, "0", "0", "1"]
            program = node.run(command, "--name", "one")
            until(lambda: resident_bytes(node) >= SIZE, "it has its memory", step_s=0.05)
            for _ in range(ROUNDS):
                out.append(suspend_s(node) / (SIZE / LINK_BYTES_PER_S))
                back.append(resume_s(node) / (SIZE / LINK_BYTES_PER_S))
            program.send_signal(signal.SIGUSR1)
            code, said, error = finish(program)
            if code:
                raise AssertionError(f"a byte was wrong: {said}{error}")
    return [
        Figure(
            "suspend_over_link_ratio", statistics.median(out[COLD:]), "", 1.5, "lower", "simgpu",
            ROUNDS - COLD, None,
            f"1 GiB over {GPU}; back until all is there {statistics.median(back[COLD:]):.2f}",
        )
    ]  # fmt: skip


def resident_bytes(node: Node) -> int:
    """What of the program is on the GPU."""
    return sum(row["resident_bytes"] for row in node.json("ps"))


def suspend_s(node: Node) -> float:
    """Suspend the program; how long until the agent says that all has left."""
    with call(Directory(node.directory)) as agent:
        began_s = time.monotonic()
        while True:
            asked = protocol.SuspendWorkload("one", 5.0)
            found = agent.ask(asked, protocol.WorkloadSuspended)
            if found.is_over:
                break
        took_s = time.monotonic() - began_s
    if found.staying_bytes or found.evicted_bytes < SIZE:
        raise AssertionError(f"it has not all left: {found}")
    return took_s


def resume_s(node: Node) -> float:
    """Resume the program; how long until all of it is on the GPU again."""
    with call(Directory(node.directory)) as agent:
        began_s = time.monotonic()
        agent.ask(protocol.ResumeWorkload("one"), protocol.WorkloadResumed)

        def is_back() -> bool:
            rows = agent.ask(protocol.Ps(), protocol.Processes).rows
            return any(row.state == "holding" and row.resident_bytes >= SIZE for row in rows)

        until(is_back, "it is back")
        return time.monotonic() - began_s
