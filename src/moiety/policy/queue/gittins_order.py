"""Who goes first when nobody says how long it runs: by what a GPU hour spent on it brings.

The worth of work is the chance that it ends within some time, over the GPU time that this takes in
the mean, for the time for which that is largest: Gittins' index, which is the best order there
is for one server and known odds. Odds come from the history (`durations`). Where it knows nothing,
worth falls with the time attained, so that it is least attained service first.

Two things keep that from being unkind. Work that waits gains worth, as much again in a day;
and nobody yields to work of less than twice its worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from moiety.policy.estimate.runtime_estimator import SPANS, WIDTHS, Floats

RESTART_S: Final = 30.0
"""what it takes to begin or go on"""
AGING_S: Final = 86400.0
"""waiting so long doubles the worth"""
AGING_POWER: Final = 1.25
"""and longer waits count a little more than in proportion, so that no worth is low for ever"""
YIELDS_AT: Final = 2.0
"""who runs yields to so many times its own worth, not less"""


def worth(
    chances: Floats, spans: Sequence[int], gpus: Sequence[int], is_running: Sequence[bool]
) -> Floats:
    """The worth of each: ends for each second of a GPU.

    `chances` are those of `History.chances`, one row for each; `spans` are those that it is in.
    """
    columns = np.arange(SPANS)
    ahead = columns >= np.asarray(spans)[:, None]
    ends = np.where(ahead, chances, 0.0)
    widths = np.where(ahead, WIDTHS, 0.0)
    goes_on = np.cumprod(1.0 - ends, axis=1)
    before = np.concatenate([np.ones((len(goes_on), 1)), goes_on[:, :-1]], axis=1)
    start = np.where(np.asarray(is_running), 0.0, RESTART_S)[:, None]
    time = start + np.cumsum(before * widths * (1.0 - ends / 2), axis=1)
    rate = np.where(ahead, (1.0 - goes_on) / np.maximum(time, 1.0), 0.0)
    best: Floats = rate.max(axis=1) / np.asarray(gpus)
    return best


def aged(value: float, waited_s: float) -> float:
    """Worth after having waited so long in all."""
    age: float = (max(0.0, waited_s) / AGING_S) ** AGING_POWER
    return value * (1.0 + age)


def yields(runs: float, waits: float) -> bool:
    """Whether who runs, of such worth, yields to who waits."""
    return runs * YIELDS_AT < waits
