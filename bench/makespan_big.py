"""Two jobs that each need 96 % of a GPU's memory: the thesis' experiment, scaled down.

The thesis (nvshare's author; a Tesla P100 with 16 GB) had two equal jobs, on the GPU for 50 or 90 %
of their 1383 or 719 seconds, and needed 2170 or 1521 seconds for both with its quantum of 30 s and
its release after 5 s of silence; a hand-off of 15.3 GB took 2.3 to 2.5 s. It is assumed that the
jobs alternate between the GPU for 13 s and the CPU for 13 or 1.44 s, about 50 times: with its rule
that gives 2170 and 1530 s, with a quantum of 5 s 3300 and 2770 (it had 3496 and 2788).

Here all times are shorter by one factor, which is such that moving a job's memory one way takes the
same part of a phase (1.2 of 13 s). There are fewer phases, so the first four, from which moiety
learns how the jobs are, are not counted: of 50 they would be a small part. The ideal, which no
schedule can beat, is the larger of what the longest job takes, and of all work on the GPU, for each
next phase either the hand-off (what does not fit, divided by the rate of the link, both directions
at once) or the holder's own pause, whichever is shorter, and the last pause. The baseline is one
job after the other. In managed mode the thesis' own rule is used, scaled: so that one should come
near what it published.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node
from tests.support.native import compile_c

HERE = Path(__file__).resolve().parent
LINK_BYTES_PER_S = 1.5e9
GPU = "A100-80:memory=128MiB,link=1.5GB/s,residue=2MiB"
PART = 0.96
"""Of what the agent shares out, each job's memory."""
THESIS_ONE_WAY_S, THESIS_GPU_S = 1.2, 13.0
THESIS_QUANTUM_S, THESIS_IDLE_S = 30.0, 5.0
WARM, PHASES, PHASES_ALONE = 4, 12, 4


@dataclass(frozen=True, slots=True)
class Case:
    """One pair of the thesis' jobs, in its seconds."""

    name: str
    cpu_s: float
    alone_s: float
    ideal_s: float
    """The longest job, or one after the other where that is shorter than what it measured."""
    nvshare_s: float

    @property
    def note(self) -> str:
        """What the thesis published."""
        ratio = self.nvshare_s / self.ideal_s
        return f"nvshare published {self.nvshare_s:.0f} of {self.ideal_s:.0f} s: {ratio:.2f}"


CASES = (
    Case("makespan_big50_ratio", 13.0, 1383, 1383, 2170),
    Case("makespan_big90_ratio", 1.44, 719, 1438, 1521),
)


@dataclass(frozen=True, slots=True)
class Job:
    """What a job is told, in seconds and bytes of here."""

    bytes: int
    gpu_s: float
    cpu_s: float
    scale: float
    """Seconds here for one of the thesis."""

    def arguments(self, warm: int, phases: int, seed: int) -> list[str]:
        """The end of its command line."""
        times = (self.gpu_s * 1e6, self.cpu_s * 1e6)
        return [str(round(value)) for value in (self.bytes, warm, phases, *times, seed)]


def job_for(case: Case, capacity_bytes: int) -> Job:
    """The job whose memory takes as long to move as the thesis', for its phase."""
    size = int(capacity_bytes * PART) // 8 * 8
    scale = size / LINK_BYTES_PER_S / THESIS_ONE_WAY_S
    return Job(size, THESIS_GPU_S * scale, case.cpu_s * scale, scale)


def ideal_s(job: Job, alone_s: float, capacity_bytes: int) -> float:
    """What two of these jobs take at least."""
    gpu_s = alone_s - PHASES * job.cpu_s
    handoff_s = (2 * job.bytes - capacity_bytes) / LINK_BYTES_PER_S
    between_s = (2 * PHASES - 1) * min(handoff_s, job.cpu_s)
    return max(2 * gpu_s + between_s + job.cpu_s, alone_s)


def go(jobs: Sequence[subprocess.Popen[str]]) -> float:
    """Start jobs all at once, first warm, then counted; seconds until the last is done."""
    spans = spans_s(jobs)
    return max(end_s for _, end_s in spans) - min(begin_s for begin_s, _ in spans)


def spans_s(jobs: Sequence[subprocess.Popen[str]]) -> list[tuple[float, float]]:
    """Start jobs as `go` does; when each began and ended what is counted. All must be right."""

    def said(job: subprocess.Popen[str]) -> str:
        assert job.stdout
        if line := job.stdout.readline():
            return line
        raise SystemExit(f"bench: a job ended early: {job.communicate()[1]}")

    def tell(job: subprocess.Popen[str]) -> None:
        assert job.stdin
        job.stdin.write("\n")
        job.stdin.flush()

    for _ in range(2):
        for job in jobs:
            said(job)
        for job in jobs:
            tell(job)
    stamps = [[int(word) for word in said(job).split()[1:]] for job in jobs]
    for job in jobs:
        tell(job)
        out, err = job.communicate()
        if job.returncode != 0:
            raise SystemExit(f"bench: a job ended with {job.returncode}: {out}{err}")
    return [(begin / 1e9, end / 1e9) for begin, end in stamps]


def alone_s(folder: Path, program: Path, job: Job) -> float:
    """One job without moiety, all its phases."""
    kernels = str(simgpu_dir()) + "/kernels.elf"
    with Node(folder, GPU) as node:
        environment = {"LD_LIBRARY_PATH": str(simgpu_dir())}
        command = [str(program), kernels, *job.arguments(0, PHASES_ALONE, 1)]
        took_s = go([node.start(command, env=environment, stdin=True)])
    return took_s * PHASES / PHASES_ALONE


def shared_s(node: Node, program: Path, job: Job, mode: str) -> float:
    """Both under moiety."""
    kernels = str(simgpu_dir()) + "/kernels.elf"
    return go(
        [
            node.run(
                [program, kernels, *job.arguments(WARM, PHASES, seed)], "--mode", mode, stdin=True
            )
            for seed in (1, 2)
        ]
    )


def figure(folder: Path, program: Path, case: Case) -> Figure:
    """Alone, in both modes, and the ideal of the same run."""
    with Node(folder, GPU) as node:
        node.start_agent()
        capacity = int(node.json("status")["gpus"][0]["capacity_bytes"])
        job = job_for(case, capacity)
        swap_s = shared_s(node, program, job, "swap")
        where = node.cli("trace").stdout.partition("\n")[0]
    with Node(folder, GPU) as node:
        node.start_agent(
            *("--quantum", f"{THESIS_QUANTUM_S * job.scale * 1e3:.0f}ms"),
            *("--idle-min", f"{THESIS_IDLE_S * job.scale * 1e3:.0f}ms"),
        )
        managed_s = shared_s(node, program, job, "managed")
    one_s = alone_s(folder, program, job)
    best_s = ideal_s(job, one_s, capacity)
    return Figure(
        name=case.name,
        value=swap_s / best_s,
        unit="",
        bar=1.05,
        better="lower",
        device=f"simgpu ({GPU})",
        samples=1,
        baseline=2 * one_s / best_s,
        note=f"{swap_s:.1f} s, ideal {best_s:.1f} s, one job alone {one_s:.1f} s; managed mode "
        f"with nvshare's rule {managed_s:.1f} s: {managed_s / best_s:.2f}; {case.note}; {where}",
    )


def measure() -> list[Figure]:
    """Both cases."""
    simgpu = simgpu_dir()
    if simgpu is None:
        raise SystemExit("bench: the native libraries are not built; run make bench")
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        program = compile_c(
            [HERE / "native" / "phases.c"],
            folder / "phases",
            flags=(f"-I{HERE.parent / 'native'}", str(simgpu / "libcuda.so.1")),
        )
        return [figure(folder, program, case) for case in CASES]
