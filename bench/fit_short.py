"""Two programs that fit and run kernels of 50 us: what they get done under moiety and without it.

Short kernels show what each call and each bound on queued work costs. Both begin at the same
moment and run as many kernels as they can for a second. The figure is the median of pairs of runs
one after the other, in either order by turns.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench.figure import Figure
from bench.jain import kernels_run
from bench.latency import build
from moiety.testing.node import Node

GPU = "A100-80:memory=128MiB,residue=2MiB"
SPIN_US, AHEAD, SECONDS = 50, 64, 1
PAIRS = 10


def measure() -> list[Figure]:
    """Kernels of both together, over those without moiety."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        client, gate = build(folder, "steady"), folder / "gate"
        with Node(folder, GPU) as node:
            node.start_agent()

            def kernels(*, shared: bool) -> int:
                start = node.run if shared else node.run_alone
                return sum(kernels_run(start, client, gate, SECONDS, (SPIN_US, AHEAD), 2))

            pairs = []
            for number in range(PAIRS):
                first = kernels(shared=bool(number % 2))
                second = kernels(shared=not number % 2)
                pairs.append((second, first) if number % 2 else (first, second))
    ratios = sorted(shared / alone for alone, shared in pairs)
    return [
        Figure(
            "fit_short_kernels_ratio",
            statistics.median(ratios),
            "",
            0.98,
            "higher",
            f"simgpu ({GPU})",
            PAIRS,
            1.0,
            f"{ratios[0]:.3f} to {ratios[-1]:.3f}; without moiety "
            f"{statistics.median(alone for alone, _ in pairs):.0f} kernels",
        )
    ]
