"""What shares cost programs that fit on a GPU together: their time on it, by the GPU's own count.

Programs that always have work, of long and of short kernels, with shares and without, in the same
run. What counts is the GPU time of all together in a second, over that without shares (the worst
case of all), and how far the parts lie from those asked for.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, table
from bench.latency import build
from bench.shares import GPU, asking, error_points
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, kill
from tests.support.simgpu_times import CardTimes, parts

SPLITS = ((0.5, 0.5), (0.3, 0.7), (0.2, 0.3, 0.5))
KERNELS_US = ((2000, 2000), (200, 200), (2000, 200))
"""The first and the other programs' kernels."""
SETTLE_S, SECONDS = 1.0, 5.0


def received(
    folder: Path, options: Sequence[Sequence[str]], kernels_us: Sequence[int], seconds: float
) -> list[float]:
    """The part of the GPU that each program receives."""
    client = build(folder, "steady")
    simgpu = Path(str(simgpu_dir()))
    with Node(folder, GPU) as node, CardTimes(node.env, simgpu) as card:
        node.start_agent()
        programs = []
        for number, own in enumerate(options):
            us = kernels_us[min(number, 1)]
            command = [client, simgpu / "kernels.elf", us, 20_000 // us, 1_000_000]
            programs.append(node.run(command, *own))
            assert programs[-1].stdout
            programs[-1].stdout.readline()
        time.sleep(SETTLE_S)
        before = card.read()
        time.sleep(seconds)
        found = parts(before, card.read())
        for program in programs:
            kill(program)
    return [found[program.pid] for program in programs]


def measure(seconds: float = SECONDS) -> list[Figure]:
    """Each split with each pair of kernels, with shares and without."""
    ratios: dict[str, float] = {}
    errors: dict[str, float] = {}
    plain_errors = []
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        for split in SPLITS:
            for kernels_us in KERNELS_US:
                plain = received(Path(name), [[] for _ in split], kernels_us, seconds)
                shared = received(Path(name), asking(split), kernels_us, seconds)
                case = "/".join(f"{part * 100:.0f}" for part in split)
                case += " of {} and {} us".format(*kernels_us)
                ratios[case] = sum(shared) / sum(plain)
                whole = sum(shared)
                errors[case] = error_points([part / whole for part in shared], split)
                plain_errors.append(error_points([p / sum(plain) for p in plain], split))
    notes = [
        "; ".join(f"{case} {value:.{digits}f}" for case, value in values.items())
        for values, digits in ((ratios, 3), (errors, 1))
    ]
    return [
        Figure(
            "share_fit_throughput_ratio",
            min(ratios.values()),
            "",
            0.95,
            "higher",
            "simgpu",
            len(ratios),
            1.0,
            notes[0],
        ),
        Figure(
            "share_fit_error_points",
            max(errors.values()),
            "points",
            3,
            "lower",
            "simgpu",
            len(errors),
            max(plain_errors),
            f"of the time all received, by the GPU's count; {notes[1]}",
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    print(table(measure(parser.parse_args().seconds)))
