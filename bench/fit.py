"""Two programs that fit on a GPU together: what they get done under moiety and without it.

Each copies 1 MiB to the GPU, changes it there, keeps the GPU busy for 2 ms and copies it back,
again and again for a second, both at once. What is compared is the iterations of both together in a
second, in pairs of runs one after the other, in either order by turns; the figure is the median.
The best-known peer takes turns even if everything fits, which costs it 14 to 21 % (its author's
thesis).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.figure import Figure
from demo import run as demo
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node
from tests.support.native import compile_c

HERE = Path(__file__).resolve().parent
GPU = "A100-80:memory=128MiB,link=8GB/s,residue=2MiB"
BYTES, KERNEL_US, SECONDS = 1 << 20, 2000, 1.0
PAIRS = 10
PTX = HERE.parent / "tests" / "gpu" / "kernels.ptx"
"""The same kernels for a real GPU."""
BAR = 0.98


def throughput(programs: list[subprocess.Popen[str]]) -> float:
    """Iterations in a second of all programs together, once all of them are ready."""
    for program in programs:
        assert program.stdout
        if program.stdout.readline() != "ready\n":
            raise SystemExit(f"bench: a program ended early: {program.communicate()[1]}")
    for program in programs:
        assert program.stdin
        program.stdin.write("\n")
        program.stdin.flush()
    rates = []
    for program in programs:
        out, err = program.communicate()
        if program.returncode != 0:
            raise SystemExit(f"bench: a program ended with {program.returncode}: {err}")
        done, took_s = out.split()
        rates.append(int(done) / float(took_s))
    return sum(rates)


def pair(node: Node, program: Path, number: int) -> tuple[float, float]:
    """Both without moiety and both with it."""
    simulated = "MOIETY_SIMGPU" in node.env
    kernels = f"{simgpu_dir()}/kernels.elf" if simulated else PTX
    command = [program, kernels, BYTES, KERNEL_US, SECONDS]
    env = {"LD_LIBRARY_PATH": str(simgpu_dir())} if simulated else {}

    def alone() -> float:
        return throughput(
            [
                node.start([str(part) for part in (*command, seed)], env=env, stdin=True)
                for seed in (1, 2)
            ]
        )

    def shared() -> float:
        return throughput([node.run([*command, seed], stdin=True) for seed in (1, 2)])

    if number % 2:
        with_us = shared()
        return alone(), with_us
    without = alone()
    return without, shared()


def measure() -> list[Figure]:
    """The throughput of both, over that without moiety."""
    simgpu = simgpu_dir()
    if simgpu is None:
        raise SystemExit("bench: the native libraries are not built; run make bench")
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        program = compile_c(
            [HERE / "native" / "iterations.c"],
            folder / "iterations",
            flags=(
                f"-I{HERE.parent / 'native'}",
                str(simgpu / "libcuda.so.1"),
                "-Wl,--allow-shlib-undefined",
            ),
        )
        with Node(folder, None if demo.has_gpu() else GPU) as node:
            node.start_agent()
            simulated = "MOIETY_SIMGPU" in node.env
            device = f"simgpu ({GPU})" if simulated else node.json("status")["gpus"][0]["name"]
            pairs = [pair(node, program, number) for number in range(PAIRS)]
    ratios = sorted(shared / alone for alone, shared in pairs)
    return [
        Figure(
            name="fit_throughput_ratio",
            value=statistics.median(ratios),
            unit="",
            bar=BAR,
            better="higher",
            device=device,
            samples=PAIRS,
            baseline=1.0,
            note=f"{ratios[0]:.3f} to {ratios[-1]:.3f}; without moiety "
            f"{statistics.median(alone for alone, _ in pairs):.0f} iterations a second",
        )
    ]
