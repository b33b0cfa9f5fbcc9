"""Sixteen unequal programs of four users on eight GPUs: placed by moiety, and by hand.

Each program alternates between the GPU and the CPU, and all begin at once. Under moiety each says
with `--gpu` what it needs, and `moiety run` chooses its GPU; by hand `CUDA_VISIBLE_DEVICES` names
one, in three ways in which people divide a machine. The first figure is the time until the last
program is done, over that of the best way by hand; the second is the mean slowdown: a program's
time over the sum of its own GPU and CPU times. The baseline is the best way by hand.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.figure import Figure, table
from bench.latency import build
from bench.makespan_big import spans_s
from moiety.cli.output import table as columns
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node

GPUS = 8
GPU = f"{GPUS}xA100-80"
BYTES = 1 << 20
WARM = 1


@dataclass(frozen=True, slots=True)
class Program:
    """One program: in each phase it needs the GPU, and then the CPU."""

    user: str
    name: str
    phases: int
    gpu_ms: int
    cpu_ms: int
    share: float
    """What it asks of a GPU's time: `--gpu`."""

    @property
    def alone_s(self) -> float:
        """The seconds that it takes alone."""
        return self.phases * (self.gpu_ms + self.cpu_ms) / 1e3

    @property
    def command(self) -> list[object]:
        """What follows the name of the program and the kernels."""
        return [BYTES, WARM, self.phases, self.gpu_ms * 1000, self.cpu_ms * 1000, 1]


def _train(user: str) -> Program:
    return Program(user, "train", 12, 450, 50, 0.7)


def _tune(user: str) -> Program:
    return Program(user, "tune", 12, 200, 200, 0.4)


def _serve(user: str) -> Program:
    return Program(user, "serve", 24, 40, 160, 0.2)


def _notebook(user: str) -> Program:
    return Program(user, "notebook", 4, 100, 900, 0.1)


PROGRAMS = (
    *(_train("ann"), _train("bob"), _train("cleo"), _tune("dan")),
    *(_train("ann"), _tune("bob"), _serve("cleo"), _tune("dan")),
    *(_train("ann"), _tune("bob"), _serve("cleo"), _serve("dan")),
    *(_notebook("ann"), _serve("bob"), _notebook("cleo"), _notebook("dan")),
)
"""In the order in which they start."""


def _by_user() -> list[int]:
    users = list(dict.fromkeys(program.user for program in PROGRAMS))
    each = GPUS // len(users)
    count = dict.fromkeys(users, 0)
    placed = []
    for program in PROGRAMS:
        placed.append(users.index(program.user) * each + count[program.user] % each)
        count[program.user] += 1
    return placed


def _from_zero() -> list[int]:
    count: dict[str, int] = {}
    placed = []
    for program in PROGRAMS:
        placed.append(count.get(program.user, 0))
        count[program.user] = placed[-1] + 1
    return placed


BY_HAND = {
    "one GPU after the other": [number % GPUS for number in range(len(PROGRAMS))],
    "two GPUs for each user": _by_user(),
    "each user from GPU 0 on": _from_zero(),
}
"""By the name of the way: the GPU of each program."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one way came to: for each program its GPU and its seconds, and those of all."""

    gpus: list[int]
    seconds: list[float]
    total_s: float

    @property
    def slowdowns(self) -> list[float]:
        """The programs' times over those that they take alone."""
        times = zip(self.seconds, PROGRAMS, strict=True)
        return [seconds / program.alone_s for seconds, program in times]


def by_hand(folder: Path, client: Path, gpus: Sequence[int]) -> Run:
    """Each program on the GPU that a person named, without moiety."""
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    with Node(folder, GPU) as node:
        environment = {"LD_LIBRARY_PATH": str(simgpu_dir())}
        jobs = [
            node.start(
                [str(word) for word in (client, kernels, *program.command)],
                env={**environment, "CUDA_VISIBLE_DEVICES": str(gpu)},
                stdin=True,
            )
            for program, gpu in zip(PROGRAMS, gpus, strict=True)
        ]
        return _run(list(gpus), spans_s(jobs))


def by_moiety(folder: Path, client: Path) -> Run:
    """Each program with `moiety run`, one after the other."""
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    with Node(folder, GPU) as node:
        node.start_agent()
        jobs = []
        for program in PROGRAMS:
            options = ["--name", f"{program.user}/{program.name}"]
            options += ["--gpu", str(program.share)]
            jobs.append(node.run([client, kernels, *program.command], *options, stdin=True))
            node.until(partial(_are_placed, node, len(jobs)), "it has its GPU")
        placed = _placed(node)
        return _run([placed[job.pid] for job in jobs], spans_s(jobs))


def _are_placed(node: Node, count: int) -> bool:
    return len(_placed(node)) == count


def _placed(node: Node) -> dict[int, int]:
    """By pid: the GPU that a program uses."""
    return {row["pid"]: row["gpu"] for row in node.json("ps") if row["gpu"] is not None}


def _run(gpus: list[int], spans: Sequence[tuple[float, float]]) -> Run:
    total_s = max(end_s for _, end_s in spans) - min(begin_s for begin_s, _ in spans)
    return Run(gpus, [end_s - begin_s for begin_s, end_s in spans], total_s)


def shown(runs: dict[str, Run]) -> str:
    """All programs, with their GPU and seconds in each way; the totals, and the slowdowns."""
    titles = ["USER", "PROGRAM", "SHARE", "ALONE"]
    for name in runs:
        titles += [name.upper(), "TOOK"]
    rows = []
    for at, program in enumerate(PROGRAMS):
        row = [program.user, program.name, f"{program.share:.0%}", f"{program.alone_s:.1f} s"]
        for run in runs.values():
            row += [f"GPU {run.gpus[at]}", f"{run.seconds[at]:.1f} s"]
        rows.append(row)
    for title, values in (
        ("all", [f"{run.total_s:.1f} s" for run in runs.values()]),
        ("mean", [f"{statistics.mean(run.slowdowns):.2f}" for run in runs.values()]),
        ("worst", [f"{max(run.slowdowns):.2f}" for run in runs.values()]),
    ):
        rows.append([title, "", "", "", *(cell for value in values for cell in ("", value))])
    return columns(titles, rows)


def measure() -> list[Figure]:
    """The three ways by hand, and moiety."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        client = build(folder, "phases")
        runs = {"moiety": by_moiety(folder, client)}
        runs |= {way: by_hand(folder, client, gpus) for way, gpus in BY_HAND.items()}
    print(shown(runs))
    ours, *others = runs.values()
    best_s = min(run.total_s for run in others)
    device = f"simgpu ({GPU})"
    totals = ", ".join(f"{way} {run.total_s:.1f} s" for way, run in runs.items())
    slowdowns = ", ".join(
        f"{way} {statistics.mean(run.slowdowns):.2f} (worst {max(run.slowdowns):.2f})"
        for way, run in runs.items()
    )
    return [
        Figure(
            "many_gpus_makespan_ratio",
            ours.total_s / best_s,
            "",
            1.0,
            "lower",
            device,
            1,
            1.0,
            totals,
        ),
        Figure(
            "many_gpus_slowdown",
            statistics.mean(ours.slowdowns),
            "",
            None,
            "lower",
            device,
            1,
            min(statistics.mean(run.slowdowns) for run in others),
            slowdowns,
        ),
    ]


if __name__ == "__main__":
    print(table(measure()))
