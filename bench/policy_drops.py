"""The same trace ten times, each without a hundredth of its jobs: what chance does to a figure.

One job that comes a moment later changes what others wait for, so the average of some thousand jobs
moves by a hundredth or two, for no reason at all. The figure is the median of the ten.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace

from moiety.sim.gangs import GangTrace

DROPS = 10
PART = 0.01
SECOND_H: Mapping[str, tuple[float, ...]] = {
    "02": (8.172, 8.103, 8.025, 8.150, 8.048, 8.017, 8.013, 7.998, 8.156, 8.035),
    "03": (15.196, 15.241, 15.407, 15.916, 15.108, 15.161, 15.358, 15.688, 15.104, 15.792),
    "06": (10.598, 10.350, 10.762, 10.374, 10.016, 10.208, 10.246, 10.567, 10.384, 10.690),
}
"""The average JCT of each, in hours, by the scheduler that only the simulator had before the policy
engine took its place (docs/decisions/0057): its code of that day replayed what `dropped` gives."""


def dropped(trace: GangTrace, cluster: str, number: int) -> GangTrace:
    """A trace without a hundredth of its jobs, drawn for this number: the same ones in each run."""
    names = sorted(gang.name for gang in trace.gangs)
    drawn = random.Random(f"{cluster}/{number}")
    gone = set(drawn.sample(names, round(len(names) * PART)))
    return replace(trace, gangs=tuple(gang for gang in trace.gangs if gang.name not in gone))


def median_of(ratio: Callable[[int], float]) -> tuple[float, str]:
    """The median of a ratio of each of the ten, and how far they lie apart."""
    ratios = sorted(ratio(number) for number in range(DROPS))
    return round(statistics.median(ratios), 4), f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
