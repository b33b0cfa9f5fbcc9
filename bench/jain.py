"""Whether 64 programs that fill the GPU receive equal parts of it.

Each asks for a 64th. What counts is how many of its kernels ran while all 64 had work, as Jain's
index, (sum x)^2 / (n sum x^2): 1 when all receive the same, 1/n when one receives everything. The
baseline is the same 64 at once without moiety.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figure import Figure
from bench.latency import build
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish

GPU = "A100-80:memory=512MiB,residue=2MiB"
TENANTS = 64
SPIN_US, AHEAD = 1000, 2
SECONDS = 20
"""about three rounds of turns of a tenth of a second"""
START_S = 20
"""for all to be there"""


def kernels_run(
    start: Callable[[list[str]], subprocess.Popen[str]], client: Path, start_s: float
) -> list[int]:
    """How many kernels of each ran, once all were there."""
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    begin_ns = time.monotonic_ns() + int(start_s * 1e9)
    command = [str(client), str(kernels), *map(str, (SPIN_US, AHEAD, SECONDS, begin_ns))]
    started = [start(command) for _ in range(TENANTS)]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    late_s = (time.monotonic_ns() - begin_ns) / 1e9
    if late_s > 0:
        raise RuntimeError(f"{TENANTS} programs took {late_s:.1f} s longer to start than expected")
    found = []
    for process in started:
        code, out, err = finish(process)
        if code != 0:
            raise RuntimeError(err)
        found.append(int(out))
    return found


def jain(received: Sequence[float]) -> float:
    """Jain's index."""
    return sum(received) ** 2 / (len(received) * sum(each**2 for each in received))


def measure() -> list[Figure]:
    """With moiety, and without."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        client = build(folder, "steady")
        with Node(folder, GPU) as node:
            plain = kernels_run(node.run_alone, client, START_S / 4)
            node.start_agent()
            part = str(1 / TENANTS)
            shared = kernels_run(lambda c: node.run(c, "--gpu", part), client, START_S)
    note = (
        f"kernels of each: {min(shared)} to {max(shared)} ({sum(shared)} in all); "
        f"without: {min(plain)} to {max(plain)} ({sum(plain)})"
    )
    return [
        Figure("jain_64", jain(shared), "", 0.95, "higher", "simgpu", TENANTS, jain(plain), note)
    ]
