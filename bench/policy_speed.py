"""How fast places are found: one core, real arrivals, until the cluster is full and beyond.

A placement counts when the task got a place; the time that refusals take is in it. It runs in a
process of its own on one core, which also says how much memory it takes.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figure import Figure
from bench.policy_traces import DEVICE, OPENB, are_there
from moiety.policy.model.cluster import Placing
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.place.placer import Placer
from moiety.sim.tables import open_trace

ROUNDS = 3
LARGE_NODES = 12_500
LARGE_GPUS = 100_000
LARGE_DEVICE = "CPU, one core; 12,500 nodes with 8 GPUs each"


def measure() -> list[Figure]:
    """Five figures."""
    if not are_there():
        return []
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, __file__], env=os.environ | one_core, capture_output=True, text=True
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    found = json.loads(ran.stdout)
    return [
        Figure(
            "policy_placements_per_s",
            found["default_per_s"],
            "/s",
            bar=10_000,
            better="higher",
            device=DEVICE,
            samples=ROUNDS,
            note="the default rule; refusals cost time, but do not count",
        ),
        Figure(
            "policy_placement_p99_ms",
            found["default_p99_ms"],
            "ms",
            bar=2,
            better="lower",
            device=DEVICE,
            samples=found["decisions"],
            note=f"of one decision; the median is {found['default_median_ms']:.3f} ms",
        ),
        Figure(
            "policy_bestfit_per_s",
            found["best-fit_per_s"],
            "/s",
            bar=25_000,
            better="higher",
            device=DEVICE,
            samples=ROUNDS,
        ),
        Figure(
            "policy_placements_100k_gpus_per_s",
            found["large_per_s"],
            "/s",
            bar=1000,
            better="higher",
            device=LARGE_DEVICE,
            samples=found["large_placed"],
            note=f"the default rule, p99 {found['large_p99_ms']:.2f} ms, until 100 % has arrived",
        ),
        Figure(
            "policy_rss_mib",
            found["rss_mib"],
            "MiB",
            bar=1024,
            better="lower",
            device=LARGE_DEVICE,
            samples=1,
            note="the most that the process had, everything included",
        ),
    ]


def main() -> None:
    """In the process of its own: prints what it found as JSON."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found: dict[str, float] = {}
    for placing in (Placing.DEFAULT, Placing.BEST_FIT):
        runs = [run(placing) for _ in range(ROUNDS)]
        found[f"{placing}_per_s"] = round(statistics.median(speed for speed, _ in runs))
        took = sorted(each for _, of_run in runs for each in of_run)
        found[f"{placing}_p99_ms"] = 1e3 * took[int(len(took) * 0.99)]
        found[f"{placing}_median_ms"] = 1e3 * statistics.median(took)
        found["decisions"] = len(took)
    speed, took = run(Placing.DEFAULT, large=True)
    took.sort()
    found["large_per_s"] = round(speed)
    found["large_p99_ms"] = 1e3 * took[int(len(took) * 0.99)]
    found["large_placed"] = len(took)
    found["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def run(placing: Placing, *, large: bool = False) -> tuple[float, list[float]]:
    """Placements a second, and how long each decision took."""
    trace = open_trace(OPENB, "default", 42)
    nodes = list(trace.nodes)
    order = trace.node_order
    arrivals = list(trace.arrivals or ())
    if large:  # as many of the nodes with 8 GPUs, in turn, as make up 100,000 GPUs
        eights = [node for node in nodes if len(node.gpus) == 8]
        copies = range(LARGE_NODES)
        nodes = [replace(eights[at % len(eights)], name=f"n{at:05}") for at in copies]
        assert sum(len(node.gpus) for node in nodes) == LARGE_GPUS
        order = None
        arrivals *= 12
    shapes = [job.shape for job in trace.jobs]
    placer = Placer(NodeArrays(nodes), placing, typical=trace.typical, order=order)
    whole = placer.cluster.gpu_milli_total
    took, placed, arrived = [], 0, 0
    for job in arrivals:
        shape = shapes[job]
        began = time.perf_counter()
        seat = placer.find(shape)
        if seat is not None:
            placer.take(shape, seat)
            placed += 1
        took.append(time.perf_counter() - began)
        arrived += shape.total_milli
        if large and arrived >= whole:
            break
    return placed / sum(took), took


if __name__ == "__main__":
    main()
