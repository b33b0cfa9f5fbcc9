"""How far the parts of a GPU's time that programs receive lie from those they asked for.

Programs that always have work, on simgpu, with short turns (--turn-factor 1) so that seconds show
their average. The baseline is the same pair without any share: half each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure
from demo import run as demo
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
SMALL, LARGE = 16 << 20, 60 << 20
"""what each allocates: two small ones fit together, two large ones do not"""
SETTLE_S, WINDOW_S = 1.0, 8.0
SPLIT = (0.3, 0.7)


def received(node: Node) -> list[float]:
    """The part of the GPU that each tenant receives in one window, by its number."""

    def so_far() -> list[float]:
        return [row["received_s"] for row in sorted(node.json("ps"), key=lambda r: r["tenant"])]

    time.sleep(SETTLE_S)
    before, began_s = so_far(), time.monotonic()
    time.sleep(WINDOW_S)
    after, ended_s = so_far(), time.monotonic()
    return [(b - a) / (ended_s - began_s) for a, b in zip(before, after, strict=True)]


def error_points(options: Sequence[Sequence[str]], asked: Sequence[float], size: int) -> float:
    """The largest distance, in points of a hundred, for programs started with these options."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        _, commands = demo.build(folder, simulated=True)
        kernels = Path(str(simgpu_dir())) / "kernels.elf"
        with Node(folder, GPU) as node:
            node.start_agent("--turn-factor", "1")
            for seed, own in enumerate(options):
                command = [*commands[0], kernels, size, 1000000, 2, 0, seed]
                node.run(command, *own)
                node.until(lambda seed=seed: len(node.json("ps")) == seed + 1, "it is there")  # type: ignore[misc]
            parts = received(node)
    return max(abs(part - want) for part, want in zip(parts, asked, strict=True)) * 100


def figure(name: str, value: float, baseline: float, samples: int, note: str) -> Figure:
    """One of them, with the bar that all have."""
    return Figure(name, value, "points", 3, "lower", "simgpu", samples, baseline, note)


def measure() -> list[Figure]:
    """A 30/70 split, when both fit and when they do not, and one that is held to its half."""
    options = [["--gpu", str(part)] for part in SPLIT]
    worst = max(error_points(options, SPLIT, size) for size in (SMALL, LARGE))
    unasked = error_points([[], []], SPLIT, LARGE)
    limited = error_points([["--gpu-limit", "0.5"]], [0.5], SMALL)
    free = error_points([[]], [0.5], SMALL)
    return [
        figure("share_error_points", worst, unasked, 2, "30/70 only, turn factor 1"),
        figure("share_limit_error_points", limited, free, 1, "one alone, limit 0.5"),
    ]
