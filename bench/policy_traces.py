"""Where the published traces are, and what is known of them: for the figures of placement."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from moiety.policy.model.cluster import Placing
from moiety.sim.replay import ReplaySettings, fill
from moiety.sim.results import Result
from moiety.sim.tables import open_trace
from moiety.sim.trace import Trace

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
OPENB = Path(os.environ.get("MOIETY_DATA") or BESIDE) / "openb"
LISTS = ("default", "gpuspec33", "gpushare100", "multigpu50", "cpu250")
SEEDS = (42, 43, 44, 45, 46)
SAMPLES = (1, 2, 3, 4, 5)
"""Seeds of orders of arrival that are sampled here, beside the published ones."""
DEVICE = "CPU, one core; Alibaba's cluster of 1,213 nodes, 6,212 GPUs"


def are_there() -> bool:
    """Says so if not."""
    if (OPENB / "nodes.csv").exists():
        return True
    print(f"bench: the published traces are not in {OPENB}: MOIETY_DATA says where else")
    return False


@cache
def trace(name: str, seed: int) -> Trace:
    """A list with the published arrivals; one of them has a pod that is larger than every node."""
    return open_trace(OPENB, name, seed, lenient=True)


@cache
def replay(name: str, seed: int, placing: Placing, *, shuffle_nodes: bool = False) -> Result:
    """All of its arrivals; kept, because several figures look at the same replay."""
    return fill(trace(name, seed), ReplaySettings(placing, seed=seed, shuffle_nodes=shuffle_nodes))


@cache
def replay_sample(name: str, seed: int, placing: Placing) -> Result:
    """Its pods in a sampled order of arrival; the order among equal nodes is random, too."""
    sampled = replace(trace(name, SEEDS[0]), arrivals=None, published={})
    return fill(sampled, ReplaySettings(placing, seed=seed, shuffle_nodes=True))
