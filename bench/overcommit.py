"""What it costs that new memory is set to zeros, where programs may ask for more than there is.

The same program allocates 1 GiB without and with overcommit. The figure is the difference
of the medians; the baseline is the time without overcommit. The simulated card takes for a fill
what this machine's processors take for it; a real one fills at the rate of its own memory.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Final

from bench.figure import Figure
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from tests.support.native import compile_c

HERE: Final = Path(__file__).resolve().parent
GPU: Final = "A100-80:memory=1360MiB,residue=2MiB"
SAMPLES: Final = 7


def allocated_s(folder: Path, *options: str) -> list[float]:
    """How long the program takes for its GiB, in seconds, several times."""
    with Node(folder, GPU) as node:
        node.start_agent(*options)
        found = []
        for _ in range(SAMPLES):
            code, out, err = finish(node.run([folder / "allocate"]))
            if code:
                raise AssertionError(f"the program failed: {err}")
            found.append(int(out) / 1e9)
        return found


def measure() -> list[Figure]:
    """The cost of a GiB of zeros."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{HERE.parent / 'native'}", f"{simgpu_dir()}/libcuda.so.1", "-O2")
        compile_c([HERE / "native" / "allocate.c"], folder / "allocate", flags=flags)
        without = statistics.median(allocated_s(folder))
        filled = statistics.median(allocated_s(folder, "--memory-overcommit", "2"))
    return [
        Figure(
            "zero_fill_ms_per_gib",
            1000 * (filled - without),
            "ms",
            None,
            "lower",
            "simgpu",
            2 * SAMPLES,
            1000 * without,
            "1 GiB in pieces of 64 MiB; baseline: without overcommit",
        )
    ]
