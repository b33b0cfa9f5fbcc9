"""How long an evicted server takes to answer again: its first launch, until that returns.

Another program took its memory and has ended, so nothing else moves. The least possible is the
bytes that left, at the link's rate. Times are by simgpu's clock (`charged=1`), as in serving.py.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.figure import Figure
from bench.swap import CAPACITY_BYTES, DEFICITS, GPU, HERE, LINK_BYTES_PER_S, MIB
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Lines, Node, finish
from moiety.testing.waiting import until
from tests.support.native import compile_c

CHARGED = "bandwidth=72GB/s,charged=1"
"""The card's memory is as much slower than a real one's as its link is."""
ROUNDS = 4
COLD = 1
"""Wakes that are left out: host memory is touched for the first time."""


def ask(process: subprocess.Popen[str], lines: Lines) -> int:
    """Have the server launch a kernel; how long the call took, in ns."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(lines.next())


def end(process: subprocess.Popen[str]) -> None:
    """Let it end; raises AssertionError if a byte was wrong."""
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    code, _, error = finish(process)
    if code:
        raise AssertionError(f"a program failed: {error}")


def ratio(folder: Path, size: int, clean: str) -> float:
    """The median wake, as a multiple of what the link alone takes."""
    program, kernels = folder / "wakes", Path(str(simgpu_dir())) / "kernels.elf"
    ratios: list[float] = []
    with Node(folder, f"{GPU},{CHARGED}") as node:
        node.env["MOIETY_CLEAN"] = clean
        node.start_agent("--capacity", str(CAPACITY_BYTES))
        server = node.run([program, kernels, size], stdin=True)
        lines = Lines(server.stdout)
        lines.next()
        for _ in range(ROUNDS):
            other = node.run([program, "-", CAPACITY_BYTES - 8 * MIB], stdin=True)
            Lines(other.stdout).next()
            end(other)
            until(lambda: len(node.json("ps")) == 1, "the other program is gone")
            (row,) = node.json("ps")
            left_bytes = size - row["resident_bytes"]
            if left_bytes < size / 2:
                raise AssertionError(f"the server's memory did not leave: {row}")
            least_s = left_bytes / LINK_BYTES_PER_S
            ratios.append(ask(server, lines) / 1e9 / least_s)
        end(server)
    return statistics.median(ratios[COLD:])


def measure() -> list[Figure]:
    """The worst of three sizes."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{HERE.parent / 'native'}", f"{simgpu_dir()}/libcuda.so.1", "-O2")
        compile_c([HERE / "native" / "wakes.c"], folder / "wakes", flags=flags)
        by_size = {size: ratio(folder, size, "on") for size in DEFICITS}
        unhashed = {size: ratio(folder, size, "off") for size in DEFICITS}
    return [
        Figure(
            "wake_over_link_ratio", max(by_size.values()), "", 1.2, "lower", "simgpu",
            len(DEFICITS) * (ROUNDS - COLD), None,
            f"A100-80 with link=1GB/s, charged time; {parts(by_size)}; "
            f"with MOIETY_CLEAN=off {parts(unhashed)}",
        )
    ]  # fmt: skip


def parts(ratios: dict[int, float]) -> str:
    """The ratio of each size."""
    return ", ".join(f"{size // MIB} MiB {one:.2f}" for size, one in ratios.items())
