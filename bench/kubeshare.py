"""The thesis' two small jobs, which fit on a GPU together and want it for half or 90 % of the time.

The thesis (nvshare's author; a Tesla P100) ran two equal jobs beside each other. With KubeShare,
which only bounds what each may use, both were done after 1724 or 1078 seconds; with nvshare's turns
after 2017 or 1366 (quantum 30 s), and without its scheduler after 1772 or 1128. The jobs are those
of `bench/makespan_big.py`, with memory that fits: 13 s on the GPU and 13 or 1.44 s without it, all
times shorter by one factor. They run on simgpu, which divides its time in slices: without any
scheduler, under moiety, and under moiety with `--gpu 0.5` each, by turns in one run. A figure is
the worse of two medians: of the time under moiety over that without a scheduler in the same round.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure, table
from bench.latency import build
from bench.makespan_big import THESIS_GPU_S, go
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node

GPU = "A100-80:memory=96MiB,residue=2MiB"
BYTES = 1 << 20
WARM, PHASES, ROUNDS = 1, 6, 3
SECONDS = 6.0
"""How long a job takes alone."""
WAYS: dict[str, list[str] | None] = {"none": None, "shared": [], "shares": ["--gpu", "0.5"]}
"""The options of `moiety run`; None: without moiety."""


@dataclass(frozen=True, slots=True)
class Case:
    """One pair of the thesis' jobs, in its seconds."""

    name: str
    cpu_s: float
    alone_s: float
    none_s: float
    """Both, without a scheduler."""
    nvshare_s: float
    kubeshare_s: float

    @property
    def note(self) -> str:
        """What the thesis published."""
        return (
            f"published: nvshare {self.nvshare_s / self.none_s:.2f}, "
            f"KubeShare {self.kubeshare_s / self.none_s:.2f}"
        )

    def arguments(self, seconds: float, seed: int) -> list[str]:
        """The end of a job's command line, for one that takes `seconds` alone."""
        scale = seconds / PHASES / (THESIS_GPU_S + self.cpu_s)
        times = (THESIS_GPU_S * scale * 1e6, self.cpu_s * scale * 1e6)
        return [str(round(value)) for value in (BYTES, WARM, PHASES, *times, seed)]


CASES = (
    Case("kubeshare_small50_ratio", 13.0, 1318, 1772, 2017, 1724),
    Case("kubeshare_small90_ratio", 1.44, 692, 1128, 1366, 1078),
)


def took_s(
    folder: Path, program: Path, arguments: Sequence[Sequence[str]], options: list[str] | None
) -> float:
    """Seconds until all jobs are done, on a GPU of their own."""
    simgpu = Path(str(simgpu_dir()))
    commands = [[str(program), str(simgpu / "kernels.elf"), *own] for own in arguments]
    with Node(folder, GPU) as node:
        if options is None:
            env = {"LD_LIBRARY_PATH": str(simgpu)}
            return go([node.start(command, env=env, stdin=True) for command in commands])
        node.start_agent()
        return go([node.run(command, *options, stdin=True) for command in commands])


def figure(folder: Path, program: Path, case: Case, seconds: float) -> Figure:
    """Each way in each round; the order changes."""
    arguments = [case.arguments(seconds, seed) for seed in (1, 2)]
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(ROUNDS):
        for way in list(WAYS) if number % 2 == 0 else reversed(list(WAYS)):
            found[way].append(took_s(folder, program, arguments, WAYS[way]))
    ratios = {
        way: statistics.median(a / b for a, b in zip(found[way], found["none"], strict=True))
        for way in ("shared", "shares")
    }
    return Figure(
        name=case.name,
        value=max(ratios.values()),
        unit="",
        bar=1.02,
        better="lower",
        device=f"simgpu ({GPU})",
        samples=ROUNDS,
        baseline=1.0,
        note=f"{ratios['shared']:.3f}, with --gpu 0.5 each {ratios['shares']:.3f}; without a "
        f"scheduler {min(found['none']):.2f} to {max(found['none']):.2f} s, "
        f"one job alone {seconds:.1f} s; {case.note}",
    )


def measure(seconds: float = SECONDS) -> list[Figure]:
    """Both cases, with jobs that take so long alone."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        program = build(folder, "phases")
        return [figure(folder, program, case, seconds) for case in CASES]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    print(table(measure(parser.parse_args().seconds)))
