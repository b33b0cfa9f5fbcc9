"""One program with 1.5 times the memory of its GPU: what moiety adds to the driver's paging.

The program sweeps over all of its memory again and again, which is the worst case for paging: what
comes next has just left. Under moiety it runs with `--mode managed --memory-limit 150%`; without
moiety it allocates as much managed memory itself. Both follow each other in one run, and each
program checks every word of what it has.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from pathlib import Path
from typing import Final

from bench.figure import Figure, table
from bench.handoff import capacity_bytes
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from tests.support.native import compile_c

ROOT: Final = Path(__file__).resolve().parents[1]
GPU: Final = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
OVER: Final = ("--mode", "managed", "--memory-limit", "150%")
PIECES: Final = 6
SMALL_BYTES: Final = 4 << 20
"""What the program's small memory takes of the limit."""
SWEEPS: Final = 20
SAMPLES: Final = 5


def build(folder: Path) -> Path:
    """The program, which is the one of the tests."""
    driver = f"{simgpu_dir()}/libcuda.so.1"
    flags = (f"-I{ROOT / 'native'}", driver, "-O2", "-Wl,--allow-shlib-undefined")
    source = ROOT / "tests" / "native" / "programs" / "oversize.c"
    return compile_c([source], folder / "oversize", flags=flags)


def swept_s(folder: Path, command: list[str], *, shared: bool) -> float:
    """The seconds of all sweeps of one program, under moiety or without it."""
    with Node(folder, GPU) as node:
        if shared:
            node.start_agent()
            process = node.run(command, *OVER)
        else:
            environment = {"LD_LIBRARY_PATH": str(simgpu_dir())}
            process = node.start([*command, "managed"], env=environment)
        code, out, err = finish(process)
        found = re.search(r"in ([0-9]+) ns, 0 words wrong", out)
        if code or not found:
            raise AssertionError(f"the program ended with {code}: {out}{err}")
        return int(found[1]) / 1e9


def measure() -> list[Figure]:
    """The ratio of both, each pair in the same minute."""
    piece = (capacity_bytes(GPU) * 3 // 2 - SMALL_BYTES) // PIECES >> 16 << 16
    ratios, alone, pairs = [], [], []
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        program = build(folder)
        numbers = (piece, PIECES, SWEEPS)
        command = [str(program), f"{simgpu_dir()}/kernels.elf", *map(str, numbers)]
        for _ in range(SAMPLES):
            without_s = swept_s(folder, command, shared=False)
            with_s = swept_s(folder, command, shared=True)
            ratios.append(with_s / without_s)
            alone.append(without_s)
            pairs.append(f"{with_s:.2f} of {without_s:.2f} s")
    return [
        Figure(
            "managed_oversize_ratio",
            statistics.median(ratios),
            "",
            1.05,
            "lower",
            f"simgpu ({GPU})",
            SAMPLES,
            statistics.median(alone),
            f"{min(ratios):.2f} to {max(ratios):.2f}: {', '.join(pairs)}; baseline: seconds "
            f"without moiety, {SWEEPS} sweeps over 1.5 times the GPU",
        )
    ]


if __name__ == "__main__":
    print(table(measure()))
