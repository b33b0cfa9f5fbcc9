"""Draws the plots of docs/benchmarks.md that are about pools.

    python bench/policy_plot.py [FOLDER]

cycles.svg, how long whole cycles take, from the figures of the last `make bench-policy`; and
placement.svg, what four rules give out of Alibaba's cluster, by replays (MOIETY_DATA says where the
trace is). FOLDER is docs/ if none is named.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figure import RESULTS
from bench.policy_traces import SEEDS, are_there, replay
from moiety.cli.sim.command import SHOWN_RULES
from moiety.policy.model.cluster import Placing

ROWS = {
    "policy_reclaim_100_s": "a GPU reclaimed, 100 full nodes",
    "policy_reclaim_500_s": "a GPU reclaimed, 500 full nodes",
    "policy_reclaim_1000_s": "a GPU reclaimed, 1,000 full nodes",
    "policy_reclaim_gang_s": "2,000 GPUs reclaimed for a gang of 250",
    "policy_unschedulable_gang_s": "a gang of 250 told that it has to wait",
    "policy_cycle_4000_gangs_s": "4,000 gangs wait, 1,000 nodes",
}


def draw_cycles(target: Path) -> None:
    """One row a figure, on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "moiety"
    from matplotlib import pyplot as plt

    found = {entry["name"]: entry for entry in json.loads(RESULTS.read_text())}
    names = [name for name in reversed(ROWS) if name in found]
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    for row, name in enumerate(names):
        entry = found[name]
        axes.barh(row, entry["value"], left=1e-3, height=0.5, color="#2a6f97")
        axes.plot([entry["bar"]] * 2, [row - 0.35, row + 0.35], color="black", linewidth=2)
        axes.plot(entry["baseline"], row, "o", color="#bc4749")
    axes.set_xscale("log")
    axes.set_xlim(1e-3, 1e3)
    axes.set_yticks(range(len(names)), [ROWS[name] for name in names])
    axes.set_xlabel("seconds: moiety (bar), what it may take (line), KAI-Scheduler (dot)")
    axes.grid(axis="x", alpha=0.3)
    nameless = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(target, metadata=nameless)


def draw_placement(target: Path) -> None:
    """A line a rule, with the first of the published orders of arrival."""
    from moiety.sim.plot import draw

    draw([replay("default", SEEDS[0], Placing(rule)) for rule in SHOWN_RULES], target)


def main(folder: Path) -> None:
    """Those for which there is what they show."""
    if RESULTS.exists():
        draw_cycles(folder / "cycles.svg")
    else:
        print(f"cycles.svg is not drawn: {RESULTS} is not there (make bench-policy writes it)")
    if are_there():
        draw_placement(folder / "placement.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
