"""PyTorch from the package registry, on the stand-in runtime: what sharing costs it.

`torch_alloc_overhead_ratio`: allocation churn under the shim, which holds a lease, against the
same without it; one process of each, by turns; the median of the pairs' ratios.
`torch_two_jobs_makespan_ratio`: makespan_big's two jobs, the thesis' experiment, with PyTorch.
`pinned_bytes_torch`: what of a PyTorch program cannot leave, beyond its context.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import makespan_big as big
from bench.figure import Figure
from moiety.devices.native import native_dir
from moiety.testing.node import Node
from tests.frameworks import setup

PROGRAMS = Path(__file__).resolve().parent / "programs"
PAIRS = 10
CHURN_GPU = "A100-80:memory=40GiB,residue=2MiB"
RESIDUE_BYTES = 2 << 20
"""Of a context, in all these GPUs."""


def environment(found: setup.Environment) -> dict[str, str]:
    """What a program with PyTorch is started with."""
    libraries = f"{found.libraries}:{native_dir()}/cudart"
    return {"LD_LIBRARY_PATH": libraries, "OMP_NUM_THREADS": "1"}


def answer(process: subprocess.Popen[str], line: str | None = None) -> str:
    """What it says next, having been told to go on."""
    assert process.stdin
    assert process.stdout
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    if said := process.stdout.readline():
        return said
    raise SystemExit(f"bench: a program ended early: {process.communicate()[1]}")


def churn(
    node: Node, found: setup.Environment, *options: str
) -> tuple[list[float], list[float], float]:
    """Seconds of each round without the shim and with it, and how often a round asks the driver."""
    command = [str(found.python), str(PROGRAMS / "torch_churn.py"), *options]
    env = environment(found)
    without_env = env | {"LD_LIBRARY_PATH": f"{native_dir()}/simgpu:{env['LD_LIBRARY_PATH']}"}
    processes = (
        node.start(command, env=without_env, stdin=True),
        node.run(command, env=env, stdin=True),
    )
    for process in processes:
        answer(process)
    rounds = [[answer(process, "go").split() for process in processes] for _ in range(PAIRS)]
    for process in processes:
        process.communicate()
    without, gated = ([float(one[at][0]) for one in rounds] for at in (0, 1))
    asked = (int(rounds[-1][0][1]) - int(rounds[0][0][1])) / (PAIRS - 1)
    return without, gated, asked


def ratio(without: list[float], gated: list[float]) -> float:
    """The pairs' median."""
    return statistics.median(b / a for a, b in zip(without, gated, strict=True))


def each_us(rounds: list[float], asked: float) -> float:
    """What one of the calls in a round takes."""
    return statistics.median(rounds) / asked * 1e6


def overhead(folder: Path, found: setup.Environment) -> Figure:
    """Churn in pairs; in the note also with a cache that is not empty, and with new memory only."""
    with Node(folder, CHURN_GPU) as node:
        node.start_agent()
        without, gated, asked = churn(node, found)
        wait_for_device(node)
        warm = churn(node, found, "0")
        wait_for_device(node)
        fresh = churn(node, found, "grow")
    return Figure(
        name="torch_alloc_overhead_ratio",
        value=ratio(without, gated),
        unit="",
        bar=1.10,
        better="lower",
        device=f"simgpu ({CHURN_GPU})",
        samples=PAIRS,
        baseline=1.0,
        note=f"native allocator, 6000 tensors for which the driver is asked {asked:.0f} times, "
        f"for as much as was freed just before; {statistics.median(without) * 1e3:.1f} ms without "
        f"the shim, {statistics.median(gated) * 1e3:.1f} ms with it; with a cache that is not "
        f"empty in the beginning, and {warm[2]:.0f} such calls, {ratio(*warm[:2]):.2f}; 20 MiB "
        f"that the program never had take {each_us(fresh[0], fresh[2]):.0f} us without the shim, "
        f"{each_us(fresh[1], fresh[2]):.0f} us with it",
    )


def pinned(folder: Path, found: setup.Environment) -> Figure:
    """What of a program that has allocated, copied and launched would stay on the GPU."""
    command = [str(found.python), str(PROGRAMS / "torch_phases.py")]
    with Node(folder, CHURN_GPU) as node:
        node.start_agent()
        program = node.run(
            [*command, str(64 << 20), "1", "1", "1000", "1000", "1"],
            env=environment(found), stdin=True,
        )  # fmt: skip
        answer(program)
        answer(program, "go")
        (gpu,) = node.json("status")["gpus"]
    return Figure(
        name="pinned_bytes_torch",
        value=gpu["used_bytes"] - gpu["resident_bytes"] - RESIDUE_BYTES,
        unit="B",
        bar=None,
        better="lower",
        device=f"simgpu ({CHURN_GPU})",
        samples=1,
        baseline=0,
        note="after copies and launches, less the context; PyTorch's own code takes nothing on "
        "simgpu, on a GPU it does",
    )


def wait_for_device(node: Node) -> None:
    """Until whoever was there has left."""
    while node.json("ps"):
        time.sleep(0.2)


def makespan(folder: Path, found: setup.Environment) -> Figure:
    """Both of the thesis' cases; the worse one counts."""
    program = [str(found.python), str(PROGRAMS / "torch_phases.py")]
    env = environment(found)
    ratios, said = [], []
    with Node(folder, big.GPU) as node:
        node.start_agent()
        capacity = int(node.json("status")["gpus"][0]["capacity_bytes"])
        for case in big.CASES:
            job = big.job_for(case, capacity)
            alone = node.run(
                [*program, *job.arguments(0, big.PHASES_ALONE, 1)], env=env, stdin=True
            )
            one_s = big.go([alone]) * big.PHASES / big.PHASES_ALONE
            wait_for_device(node)
            both = [
                node.run(
                    [*program, *job.arguments(big.WARM, big.PHASES, seed)], env=env, stdin=True
                )
                for seed in (1, 2)
            ]
            took_s = big.go(both)
            wait_for_device(node)
            best_s = big.ideal_s(job, one_s, capacity)
            ratios.append(took_s / best_s)
            said.append(f"{case.name[9:14]}: {took_s:.1f} s, ideal {best_s:.1f} s")
    return Figure(
        name="torch_two_jobs_makespan_ratio",
        value=max(ratios),
        unit="",
        bar=1.10,
        better="lower",
        device=f"simgpu ({big.GPU})",
        samples=1,
        baseline=None,
        note="; ".join(said),
    )


def measure() -> list[Figure]:
    """All three; none where PyTorch is not in the cache."""
    found = setup.found()
    if found is None:
        print("bench: skipped: PyTorch is not in the cache; make test-frameworks puts it there",
              file=sys.stderr)  # fmt: skip
        return []
    if native_dir() is None:
        raise SystemExit("bench: the native libraries are not built; run make bench")
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        return [overhead(folder, found), pinned(folder, found), makespan(folder, found)]
