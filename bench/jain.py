"""Whether 64 programs that fill the GPU receive equal parts of it.

Each asks for a 64th. What counts is how many of its kernels ran while all 64 had work, as Jain's
index, (sum x)^2 / (n sum x^2): 1 when all receive the same, 1/n when one receives everything. The
baseline is the same 64 at once without moiety.
"""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figure import Figure
from bench.latency import build
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish

GPU = "A100-80:memory=512MiB,residue=2MiB"
TENANTS = 64
SPIN_US, AHEAD = 1000, 2
SECONDS, PLAIN_SECONDS = 20, 10


def kernels_run(
    start: Callable[[list[str]], subprocess.Popen[str]],
    client: Path,
    gate: Path,
    seconds: int,
    kernels_of: tuple[int, int] = (SPIN_US, AHEAD),
    count: int = TENANTS,
) -> list[int]:
    """How many kernels of each of `count` programs ran, once all were there.

    `kernels_of` is how many microseconds a kernel takes, and how many of them are queued.
    """
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    command = [str(client), str(kernels), *map(str, (*kernels_of, seconds, gate))]
    with gate.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        started = [start(command) for _ in range(count)]
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
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
            plain = kernels_run(node.run_alone, client, folder / "gate", PLAIN_SECONDS)
            node.start_agent()
            part = str(1 / TENANTS)
            shared = kernels_run(
                lambda c: node.run(c, "--gpu", part), client, folder / "gate", SECONDS
            )
    note = (
        f"kernels of each: {min(shared)} to {max(shared)} ({sum(shared)} in all); "
        f"without, in half the time: {min(plain)} to {max(plain)} ({sum(plain)})"
    )
    return [
        Figure("jain_64", jain(shared), "", 0.95, "higher", "simgpu", TENANTS, jain(plain), note)
    ]
