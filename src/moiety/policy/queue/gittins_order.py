"""The order of work without declared run times: by the worth of a GPU-hour that is spent on it.

The worth of work is the chance that it ends within some time, over the GPU time that this takes in
the mean, for the time for which that is largest: Gittins' index, the best order for one server and
known chances. Chances come from the history (runtime_estimator.py). Where the history knows
nothing, worth falls with the time attained, so the order is least attained service first.

Two rules keep that fair. Work that waits gains worth, as much again in a day; and no work yields to
work of less than twice its worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from moiety.policy.estimate.runtime_estimator import SPANS, WIDTHS, Floats, Spans
from moiety.policy.place.arrays import Bools

RESTART_S: Final = 30.0
"""The time that it takes to begin or go on."""
AGING_S: Final = 86400.0
"""The wait that doubles the worth. Longer waits count by a power of 5/4 of it, a little more than
in proportion, so that no worth is low for ever."""
YIELDS_AT: Final = 2.0
"""Running work yields to waiting work of more than this multiple of its own worth."""


def worth(
    chances: Floats,
    spans: Sequence[int] | Spans,
    gpus: Sequence[float] | Floats,
    is_running: Sequence[bool] | Bools,
) -> Floats:
    """The worth of each piece of work: ends for each second of a GPU.

    `chances` has a row of `RuntimeEstimator.chances` for each; `spans` are their present spans.
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


def aged(value: Floats | float, waited_s: Floats | float) -> Floats:
    """Worth after a wait of `waited_s` in all."""
    days = np.maximum(waited_s, 0.0) / AGING_S
    found: Floats = value * (1.0 + days * np.sqrt(np.sqrt(days)))
    return found


def yields(runs: Floats | float, waits: Floats | float) -> Bools:
    """Whether running work yields to waiting work, by the worth of both."""
    found: Bools = np.less(np.multiply(runs, YIELDS_AT), waits)
    return found
