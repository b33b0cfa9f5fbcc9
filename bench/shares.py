"""How far the parts of a GPU's time that programs receive lie from those they asked for.

Programs that always have work, on simgpu, with the default settings. What counts is the GPU's own
count of what each received, as a part of what all received; for a limit, as a part of the time.
After a live change, the figure is the seconds from which on the parts of every window of 2 s are
right. The baseline is the same without any share: equal parts.

Where programs do not fit, that is measured without hashes (`MOIETY_CLEAN=off`): simgpu computes
them with the processor, which takes 20 ms for each hand-off of 30 MiB, and turns become longer
with their hand-offs. An A100 reads that much in 20 us. With hashes it is in the note.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.figure import Figure, table
from bench.latency import build
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node
from tests.support.simgpu_times import CardTimes, parts

GPU = "A100-80:memory=48MiB,link=8GB/s,residue=2MiB"
SMALL, LARGE = 8 << 20, 30 << 20
"""What each allocates: small ones fit together, no two large ones do."""
KERNEL_US, AHEAD = 2000, 20
SETTLE_S, SECONDS = 1.0, 10.0
STEP_S = 0.1
"""Between two readings of the GPU's count."""
SPAN_S = 2.0
"""The length of the windows that must be right after a change."""
BAR_POINTS = 3.0
SPLITS = ((0.3, 0.7), (0.1, 0.9), (0.2, 0.3, 0.5))
Reading = tuple[float, dict[int, float]]


class Programs:
    """Programs that always have work, with an agent, and what the GPU counts for each."""

    def __init__(self, node: Node, card: CardTimes, client: Path) -> None:
        """None yet."""
        self.node, self.card, self.client = node, card, client
        self.pids: list[int] = []

    def start(self, options: Sequence[str], size: int) -> None:
        """Start one with these options, and wait until the agent has it."""
        kernels = Path(str(simgpu_dir())) / "kernels.elf"
        command = [self.client, kernels, KERNEL_US, AHEAD, size]
        self.pids.append(self.node.run(command, *options).pid)
        count = len(self.pids)
        self.node.until(lambda: len(self.node.json("ps")) == count, "it is there")

    def change(self, later: Sequence[Sequence[str]]) -> None:
        """`moiety set` for each.

        Raises:
            RuntimeError: it was refused.
        """
        tenants = sorted(row["tenant"] for row in self.node.json("ps"))
        for tenant, own in zip(tenants, later, strict=True):
            done = self.node.cli("set", str(tenant), *own)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)

    def watch(self, seconds: float) -> list[Reading]:
        """Readings of the GPU's count, one each `STEP_S`."""
        readings = [self.card.read()]
        while readings[-1][0] < readings[0][0] + seconds:
            time.sleep(STEP_S)
            readings.append(self.card.read())
        return readings


def received(readings: Sequence[Reading], pids: Sequence[int]) -> list[float]:
    """The part of the GPU's time that each received between the first reading and the last."""
    found = parts(readings[0], readings[-1])
    return [found[pid] for pid in pids]


def of_all(received: Sequence[float]) -> list[float]:
    """Parts of what all received, not of the time."""
    return [part / sum(received) for part in received]


def error_points(found: Sequence[float], asked: Sequence[float]) -> float:
    """The largest distance, in points of a hundred."""
    return max(abs(part - want) for part, want in zip(found, asked, strict=True)) * 100


def settled_s(readings: Sequence[Reading], pids: Sequence[int], asked: Sequence[float]) -> float:
    """Seconds after the first reading from which on every window of `SPAN_S` is right.

    The first reading after the begin of the last window, where that is not right either.
    """
    began_s = settled = readings[0][0]
    for first, before in enumerate(readings):
        within = [one for one in readings[first:] if one[0] <= before[0] + SPAN_S + STEP_S / 2]
        if within[-1] is readings[-1]:
            break
        found = of_all(received(within, pids))
        if error_points(found, asked) > BAR_POINTS:
            settled = readings[first + 1][0]
    return settled - began_s


def asking(split: Sequence[float]) -> list[list[str]]:
    """The options that ask for these parts."""
    return [["--gpu", str(part)] for part in split]


class Runs:
    """Runs of such programs, and what was found in them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        """`seconds`: how long the parts are counted."""
        self.folder, self.seconds = folder, seconds
        self.client = build(folder, "busy")
        self.errors: dict[str, float] = {}
        self.limit_errors: dict[str, float] = {}
        self.settled: dict[str, float] = {}
        self.settled_hashing: dict[str, float] = {}
        """The same with hashes by the processor."""

    def shares(self, split: Sequence[float], size: int, case: str, *, live: bool) -> None:
        """Programs that ask for these parts; `live`: and then, while they run, for 10 and 90."""
        found, later = self.go(asking(split), size, asking(SPLITS[1]) if live else (), SPLITS[1])
        text = "/".join(f"{part * 100:.0f}" for part in split)
        self.errors[f"{text} {case}"] = error_points(of_all(found), split)
        if live:
            self.errors[f"then 10/90 live {case}"] = later[0]
            settled = self.settled if size == SMALL else self.settled_hashing
            settled[case] = later[1]

    def settle(self, size: int, case: str) -> None:
        """A live change, without hashes."""
        first, then = asking(SPLITS[0]), asking(SPLITS[1])
        _, later = self.go(first, size, then, SPLITS[1], clean="off")
        self.errors[f"{case}, live, without hashes"] = later[0]
        self.settled[f"{case}, without hashes"] = later[1]

    def limit(self, part: float, others: int, size: int, case: str) -> None:
        """A program with a limit, beside others without one."""
        found, _ = self.go([["--gpu-limit", str(part)], *[[] for _ in range(others)]], size)
        self.limit_errors[f"{part * 100:.0f} {case}"] = error_points(found[:1], [part])

    def go(
        self,
        options: Sequence[Sequence[str]],
        size: int,
        later: Sequence[Sequence[str]] = (),
        asked: Sequence[float] = (),
        clean: str = "on",
    ) -> tuple[list[float], tuple[float, float]]:
        """What programs with these options receive of the time.

        And once `later` was set: the error in points, and the seconds until `asked` is reached.
        """
        simgpu = Path(str(simgpu_dir()))
        with Node(self.folder, GPU) as node, CardTimes(node.env, simgpu) as card:
            node.env["MOIETY_CLEAN"] = clean
            node.start_agent()
            programs = Programs(node, card, self.client)
            for own in options:
                programs.start(own, size)
            time.sleep(SETTLE_S)
            found = received(programs.watch(self.seconds), programs.pids)
            if not later:
                return found, (0.0, 0.0)
            programs.change(later)
            readings = programs.watch(self.seconds + SETTLE_S)
            after = [one for one in readings if one[0] >= readings[0][0] + SETTLE_S]
            error = error_points(of_all(received(after, programs.pids)), asked)
            return found, (error, settled_s(readings, programs.pids, asked))


def figures(runs: Runs, free: Sequence[float], unasked: Sequence[float]) -> list[Figure]:
    """All three of them."""

    def figure(
        name: str, unit: str, bar: float, found: dict[str, float], baseline: float | None
    ) -> Figure:
        note = "; ".join(f"{what} {value:.1f}" for what, value in found.items())
        worst = max(found.values())
        return Figure(name, worst, unit, bar, "lower", "simgpu", len(found), baseline, note)

    equal = max(error_points(of_all(unasked), split) for split in SPLITS[:2])
    free_error = error_points(free, [0.5])
    settled = figure("share_settle_s", "s", 2, runs.settled, None)
    return [
        figure("share_error_points", "points", BAR_POINTS, runs.errors, equal),
        figure("share_limit_error_points", "points", BAR_POINTS, runs.limit_errors, free_error),
        replace(
            settled, note=f"{settled.note}; with hashes by the processor: {_listed(runs)}",
        ),
    ]  # fmt: skip


def _listed(runs: Runs) -> str:
    return "; ".join(f"{what} {value:.1f}" for what, value in runs.settled_hashing.items())


def measure(seconds: float = SECONDS) -> list[Figure]:
    """Three splits, a live change and a limit, when all fit and when no two do; a limit alone."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        runs = Runs(Path(name), seconds)
        for size, case in ((SMALL, "fit"), (LARGE, "do not fit")):
            for split in SPLITS:
                runs.shares(split, size, case, live=split == SPLITS[0])
            runs.limit(0.3, 1, size, f"beside one, {case}")
        runs.settle(LARGE, "do not fit")
        runs.limit(0.5, 0, SMALL, "alone")
        unasked, _ = runs.go([[], []], LARGE)
        free, _ = runs.go([[]], SMALL)
    return figures(runs, free, unasked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    print(table(measure(parser.parse_args().seconds)))
