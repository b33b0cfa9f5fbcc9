"""The demo's three programs, all shared against one after the other."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from bench.figure import Figure
from demo import run as demo
from moiety.testing.node import Node

ROUNDS = 4
SAMPLES = 3


def seconds(node: Node, commands: list[list[str]], *, shared: bool) -> float:
    """How long the programs take together, or one after the other without moiety."""
    began_s = time.monotonic()
    if shared:
        return max(demo.wait_for([node.run(command) for command in commands], began_s))
    for command in commands:
        demo.wait_for([node.run_alone(command)], time.monotonic())
    return time.monotonic() - began_s


def measure() -> list[Figure]:
    """The makespan of all three shared, over that of one after the other."""
    simulated = not demo.has_gpu()
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        kernels, programs = demo.build(folder, simulated=simulated)
        with Node(folder, demo.SIMGPU if simulated else None) as node:
            options = [] if simulated else ["--capacity", str(demo.REAL_CAPACITY_BYTES)]
            node.start_agent(*options)
            each = int(demo.capacity_bytes(node) * demo.SHARE) // 8 * 8
            numbers = (each, ROUNDS, demo.GPU_MS, demo.CPU_MS)
            commands = [
                [*program, str(kernels), *map(str, numbers), str(seed)]
                for seed, program in enumerate(programs)
            ]
            device = "simgpu" if simulated else str(node.json("status")["gpus"][0]["name"])
            pairs = [
                (seconds(node, commands, shared=False), seconds(node, commands, shared=True))
                for _ in range(SAMPLES)
            ]
    return [
        Figure(
            name="demo_makespan_ratio",
            value=statistics.median(shared / apart for apart, shared in pairs),
            unit="",
            bar=1.0,
            better="lower",
            device=device,
            samples=SAMPLES,
            baseline=1.0,
            note=f"{statistics.median(s for _, s in pairs):.1f} s shared, "
            f"{statistics.median(a for a, _ in pairs):.1f} s one after the other",
        )
    ]
