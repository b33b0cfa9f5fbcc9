"""FGD and best-fit as published: the largest difference from the published runs, in points.

Every whole-percent bucket of arrived load, five lists, seeds 42 to 46, each.
"""

from __future__ import annotations

from bench.figure import Figure
from bench.policy_traces import DEVICE, LISTS, SEEDS, are_there, replay
from moiety.policy.model.cluster import Placing

BAR = 0.02


def measure() -> list[Figure]:
    """Both figures."""
    if not are_there():
        return []
    return [
        _worst("policy_fidelity_fgd_max_error", Placing.FGD),
        _worst("policy_fidelity_bestfit_max_error", Placing.BEST_FIT),
    ]


def _worst(name: str, placing: Placing) -> Figure:
    found = []
    for list_name in LISTS:
        for seed in SEEDS:
            differs = replay(list_name, seed, placing).published
            assert differs, f"nothing is published of {list_name}, seed {seed}"
            found.append((differs.max_error_points, differs.buckets, f"{list_name}/{seed}"))
    worst = max(found)
    exact = sum(error == 0 for error, *_ in found)
    return Figure(
        name,
        worst[0],
        "points",
        bar=BAR,
        better="lower",
        device=DEVICE,
        samples=sum(buckets for _, buckets, _ in found),
        note=f"{exact} of {len(found)} runs to the last digit; the worst is {worst[2]}",
    )
