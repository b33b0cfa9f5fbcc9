"""Two jobs that do not fit together: busy all the time, or with short pauses.

`makespan_busy_ratio`: both never stop. Nothing can be gained by sharing; what it costs is the
hand-offs. The time of both together is compared with one after the other.
`makespan_short_idle_ratio`: 0.1 s on the GPU and 0.1 s without it, by turns. It is compared with
the ideal of makespan_big.py: all work on the GPU, and between two phases the hand-off or the pause,
whichever is shorter.
The baseline is the peer's rule: one lock with a quantum of 30 s that is released after 5 s of
silence, in managed mode, in the same run.

Measured without hashes (`MOIETY_CLEAN=off`), as in interleave.py; with hashes, which simgpu
computes with the processor, it is in the note.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from bench.handoff import capacity_bytes
from bench.latency import build
from bench.makespan_big import go
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node

LINK_BYTES_PER_S = 1.5e9
GPU = "A100-80:memory=72MiB,link=1.5GB/s,residue=2MiB"
PART = 0.96
SAMPLES = 3
WARM = 8
PEERS_RULE = ("--quantum", "30s", "--idle-min", "5s")


@dataclass(frozen=True, slots=True)
class Job:
    """A job of phases with the GPU and without it."""

    bytes: int
    phases: int
    gpu_s: float
    cpu_s: float

    def command(self, program: Path, seed: int) -> list[str]:
        """How it is started."""
        kernels = str(simgpu_dir()) + "/kernels.elf"
        numbers = (self.bytes, WARM, self.phases, self.gpu_s * 1e6, self.cpu_s * 1e6, seed)
        return [str(program), kernels, *(str(round(each)) for each in numbers)]


def ideal_s(job: Job, alone_s: float, capacity: int) -> float:
    """What two of these jobs take at least, moves included."""
    gpu_s = alone_s - job.phases * job.cpu_s
    handoff_s = (2 * job.bytes - capacity) / LINK_BYTES_PER_S
    between_s = (2 * job.phases - 1) * min(handoff_s, job.cpu_s)
    return max(2 * gpu_s + between_s + job.cpu_s, alone_s)


def shared_s(
    folder: Path, program: Path, job: Job, *, peers: bool = False, clean: str = "off"
) -> tuple[float, str]:
    """Both at once under moiety, or by the peer's rule; and where the time went."""
    with Node(folder, GPU) as node:
        node.env["MOIETY_CLEAN"] = clean
        node.start_agent(*(PEERS_RULE if peers else ()))
        mode = "managed" if peers else "swap"
        took_s = go(
            [node.run(job.command(program, seed), "--mode", mode, stdin=True) for seed in (1, 2)]
        )
        return took_s, node.cli("trace").stdout.partition("\n")[0]


def alone_s(folder: Path, program: Path, job: Job) -> float:
    """One job without moiety."""
    with Node(folder, GPU) as node:
        environment = {"LD_LIBRARY_PATH": str(simgpu_dir())}
        return go([node.start(job.command(program, 1), env=environment, stdin=True)])


def figure(folder: Path, program: Path, name: str, job: Job, bar: float) -> Figure:
    """Both together, over what they are compared with, each time in the same minute."""
    capacity = capacity_bytes(GPU)
    ours, peers, notes = [], [], []
    where = ""
    for _ in range(SAMPLES):
        one_s = alone_s(folder, program, job)
        best_s = ideal_s(job, one_s, capacity) if job.cpu_s else 2 * one_s
        with_us_s, where = shared_s(folder, program, job)
        peers_s, _ = shared_s(folder, program, job, peers=True)
        ours.append(with_us_s / best_s)
        peers.append(peers_s / best_s)
        notes.append(f"{with_us_s:.1f} of {best_s:.1f} s (alone {one_s:.1f})")
    hashing_s, _ = shared_s(folder, program, job, clean="on")
    return Figure(
        name,
        statistics.median(ours),
        "",
        bar,
        "lower",
        f"simgpu ({GPU})",
        SAMPLES,
        statistics.median(peers),
        f"{min(ours):.2f} to {max(ours):.2f}: {', '.join(notes)}; {where}; with hashes "
        f"by the processor {hashing_s / best_s:.2f}; baseline: the peer's rule, "
        f"{min(peers):.2f} to {max(peers):.2f}",
    )


def measure() -> list[Figure]:
    """Both figures."""
    size = int(capacity_bytes(GPU) * PART) // 8 * 8
    busy, pauses = Job(size, 40, 0.1, 0.0), Job(size, 20, 0.1, 0.1)
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        program = build(folder, "phases")
        return [
            figure(folder, program, "makespan_busy_ratio", busy, 1.12),
            figure(folder, program, "makespan_short_idle_ratio", pauses, 1.15),
        ]
