"""How much of the GPUs the default rule gives out, in percent: means of seeds 42 to 46.

Tasks come as in the published runs, are placed whenever any node has room, and stay. The baseline
is FGD's published mean over the same seeds; the bound is that of a linear program (seed 42).
"""

from __future__ import annotations

from statistics import mean

from bench.figure import Figure
from bench.policy_traces import DEVICE, LISTS, SEEDS, are_there, replay, trace
from moiety.policy.model.cluster import Placing

PERCENTS = (100, 130)
BARS = {
    "default": (95.3, 95.5),
    "gpuspec33": (93.5, 94.5),
    "gpushare100": (86.9, 87.2),
}
"""For the others it is FGD's own mean."""
BOUNDS = {
    "default": (96.99, 99.88),
    "gpuspec33": (96.83, 99.79),
    "gpushare100": (89.23, 91.58),
    "multigpu50": (98.40, 100.0),
    "cpu250": (96.99, 99.90),
}
RENAMED_BAR = 95.0


def measure() -> list[Figure]:
    """Two for each list, and one with the nodes renamed at random."""
    if not are_there():
        return []
    figures = []
    for name in LISTS:
        allocations = [_at(name, seed) for seed in SEEDS]
        fgd = [trace(name, seed).published["fgd"] for seed in SEEDS]
        for column, percent in enumerate(PERCENTS):
            value = mean(each[column] for each in allocations)
            published = mean(each[percent] or 0.0 for each in fgd)
            bound = BOUNDS[name][column]
            assert value <= bound, f"{value} at {percent} % of {name}: more than is possible"
            figures.append(
                Figure(
                    f"policy_alloc_{name}_{percent}",
                    round(value, 3),
                    "%",
                    bar=BARS[name][column] if name in BARS else round(published, 3),
                    better="higher",
                    device=DEVICE,
                    samples=len(SEEDS),
                    baseline=round(published, 3),
                    note=f"baseline: FGD as published; at most {bound:g} is possible",
                )
            )
    renamed = [_at("default", seed, shuffle_nodes=True)[1] for seed in SEEDS]
    figures.append(
        Figure(
            "policy_alloc_default_130_renamed",
            round(mean(renamed), 3),
            "%",
            bar=RENAMED_BAR,
            better="higher",
            device=DEVICE,
            samples=len(SEEDS),
            note=f"nodes renamed at random; the worst seed has {min(renamed):g}",
        )
    )
    return figures


def _at(name: str, seed: int, *, shuffle_nodes: bool = False) -> tuple[float, float]:
    result = replay(name, seed, Placing.DEFAULT, shuffle_nodes=shuffle_nodes)
    full, over = (result.allocation_at(percent) for percent in PERCENTS)
    assert full is not None
    assert over is not None
    return full, over
