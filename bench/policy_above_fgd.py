"""How far the default rule is above FGD: points of GPU allocation, list by list and order by order.

Ten orders of arrival for each list: the five published ones, and five that are sampled from the
list. FGD runs on each of them, and best-fit beside it. A rule that keeps room for late tasks can
lose early ones, so the cluster is looked at when 95, 100 and 130 % of its capacity have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean

from bench.figure import Figure
from bench.policy_traces import DEVICE, LISTS, SAMPLES, SEEDS, are_there, replay, replay_sample
from moiety.policy.model.cluster import Placing
from moiety.sim.results import Result

PERCENTS = (95, 100, 130)
MEAN_BAR = -0.05
WORST_BAR = -0.3
RULES = (Placing.DEFAULT, Placing.BEST_FIT)
ORDERS = (*((replay, seed) for seed in SEEDS), *((replay_sample, seed) for seed in SAMPLES))

Points = dict[tuple[Placing, str, int], list[float]]
"""By rule, list and arrived percent: points above FGD, one for each order."""


def measure() -> list[Figure]:
    """One for each percent, the least of the lists' means, and the worst order of all."""
    if not are_there():
        return []
    points: Points = {}
    for name in LISTS:
        for run, seed in ORDERS:
            _add(points, name, run, seed)
    figures = []
    for percent in PERCENTS:
        means = {name: mean(points[Placing.DEFAULT, name, percent]) for name in LISTS}
        least = min(means, key=means.__getitem__)
        figures.append(
            Figure(
                f"policy_alloc_above_fgd_{percent}",
                round(means[least], 3),
                "points",
                bar=MEAN_BAR,
                better="higher",
                device=DEVICE,
                samples=len(LISTS) * len(ORDERS),
                baseline=round(
                    min(mean(points[Placing.BEST_FIT, name, percent]) for name in LISTS), 3
                ),
                note=", ".join(f"{name} {value:+.2f}" for name, value in means.items())
                + "; baseline: best-fit",
            )
        )
    worst = {rule: _worst(points, rule) for rule in RULES}
    value, where = worst[Placing.DEFAULT]
    figures.append(
        Figure(
            "policy_alloc_worst_seed",
            round(value, 3),
            "points",
            bar=WORST_BAR,
            better="higher",
            device=DEVICE,
            samples=sum(len(each) for (rule, *_), each in points.items() if rule == RULES[0]),
            baseline=round(worst[Placing.BEST_FIT][0], 3),
            note=f"{where}; baseline: best-fit",
        )
    )
    return figures


def _add(points: Points, name: str, run: Callable[..., Result], seed: int) -> None:
    fgd = run(name, seed, Placing.FGD)
    for rule in RULES:
        result = run(name, seed, rule)
        for percent in PERCENTS:
            above = _at(result, percent) - _at(fgd, percent)
            points.setdefault((rule, name, percent), []).append(above)


def _at(result: Result, percent: int) -> float:
    found = result.allocation_at(percent)
    assert found is not None, f"{result.trace}, seed {result.seed}: less than {percent} % arrived"
    return found


def _worst(points: Points, placing: Placing) -> tuple[float, str]:
    """The worst order of all lists, and which it is."""
    return min(
        (value, f"{name} at {percent} %, order {at + 1} of {len(found)}")
        for (rule, name, percent), found in points.items()
        if rule is placing
        for at, value in enumerate(found)
    )
