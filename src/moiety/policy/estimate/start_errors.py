"""How true it was what was said of begins, and what that makes of the next answer.

What the engine foresees leaves out work that has not come yet, and takes run times that it does not
know. So past answers are kept beside what came. Those that were most like a new answer correct it:
the ratio of the real wait to the foreseen one has a distribution, and its 10 % and 90 % quantiles
bound the answer (split conformal prediction on ratios, by nearest neighbours). Where more or fewer
begins lay outside than one of five, the next quantiles are wider or narrower (adaptive conformal
inference, Gibbs and Candès 2021). Work that still waits counts for as long as it has waited (Kaplan
and Meier's estimate); else only short waits would count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

KEPT_MAX: Final = 1000
"""The most answers that are kept, the newest ones."""
NEAREST: Final = 100
"""The answers that are looked at for a new one."""
LEAST: Final = 20
"""With fewer answers, nothing is learned from them."""
LOW: Final = 0.1
HIGH: Final = 0.9
"""The bounds between which four of five begins lie."""
ADAPTS: Final = 0.005
"""How far one begin moves the part that lies outside the next bounds: the value of the paper."""
OUTSIDE_MIN: Final = 0.04
"""It is never less: of 100 answers, two lie beyond each bound."""
BESIDE_S: Final = 60.0
"""It is added to both waits before they are compared: seconds more or less are no error."""


@dataclass(frozen=True, slots=True)
class StartInterval:
    """Seconds until a begin: the most likely, and the bounds that hold four times of five."""

    expected_s: float
    earliest_s: float
    latest_s: float


class _Said(NamedTuple):
    """What was said of a workload."""

    at_s: float
    foreseen_s: float
    within: tuple[float, float] | None
    """The bounds of its wait, in seconds; None: none were said."""


class StartErrors:
    """Past answers, and those whose begin is still to come."""

    def __init__(self) -> None:
        self._came: deque[tuple[float, float]] = deque(maxlen=KEPT_MAX)
        """The foreseen wait and the real one, as logarithms."""
        self._waits: dict[str, _Said] = {}
        """What was said of work that still waits."""
        self._outside = 1.0 - (HIGH - LOW)
        """The part of past ratios that lies outside the next bounds, half on each side."""

    @property
    def is_known(self) -> bool:
        """Whether enough work has begun of which something was said before."""
        return len(self._came) >= LEAST

    def told(self, workload: str, at_s: float, foreseen_s: float) -> None:
        """Note what was said, if nothing was said of this workload before."""
        if workload not in self._waits:
            bounds = self.corrected(foreseen_s, at_s)
            within = None if bounds is None else (bounds.earliest_s, bounds.latest_s)
            self._waits[workload] = _Said(at_s, foreseen_s, within)

    def began(self, workload: str, at_s: float) -> None:
        """Note that a workload began."""
        said = self._waits.pop(workload, None)
        if said is None:
            return
        real_s = at_s - said.at_s
        self._came.append((_log(said.foreseen_s), _log(real_s)))
        if said.within is not None:
            earliest_s, latest_s = said.within
            missed = not earliest_s <= real_s <= latest_s
            moved = self._outside + ADAPTS * (1.0 - (HIGH - LOW) - missed)
            self._outside = min(max(moved, OUTSIDE_MIN), 1.0)

    def forget(self, workload: str) -> None:
        """A workload is gone before it began."""
        self._waits.pop(workload, None)

    def corrected(self, foreseen_s: float, now_s: float) -> StartInterval | None:
        """What past errors make of a foreseen wait; None: there are too few of them."""
        if not self.is_known:
            return None
        waits = [(_log(each.foreseen_s), _log(now_s - each.at_s)) for each in self._waits.values()]
        foreseen, real = np.array([*self._came, *waits]).T
        is_real = np.arange(len(real)) < len(self._came)
        here = _log(foreseen_s)
        near = np.argsort(np.abs(foreseen - here), kind="stable")[:NEAREST]
        ratios = real[near] - foreseen[near]
        bounds = self._outside / 2, 1.0 - self._outside / 2
        at = *_quantiles(ratios, is_real[near], bounds), _mode(ratios[is_real[near]])
        low, high, likely = (max(float(np.exp(here + each)) - BESIDE_S, 0.0) for each in at)
        earliest, latest = _grained(low, up=False), _grained(high, up=True)
        return StartInterval(min(max(likely, earliest), latest), earliest, latest)

    def dump(self) -> dict[str, Any]:
        """All of it, as plain values."""
        waits = {name: tuple(said) for name, said in self._waits.items()}
        return {"came": list(self._came), "waits": waits, "outside": self._outside}

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> StartErrors:
        """What was dumped, also by a version that kept no bounds."""
        errors = cls()
        errors._came.extend((pair[0], pair[1]) for pair in dumped.get("came", ()))
        for name, said in dumped.get("waits", {}).items():
            within = said[2] if len(said) > 2 else None
            pair = None if within is None else (within[0], within[1])
            errors._waits[name] = _Said(said[0], said[1], pair)
        errors._outside = dumped.get("outside", errors._outside)
        return errors


def _log(seconds: float) -> float:
    return float(np.log(max(seconds, 0.0) + BESIDE_S))


def _quantiles(
    values: NDArray[np.float64], is_real: NDArray[np.bool_], of: tuple[float, ...]
) -> list[float]:
    """Quantiles of values of which some are only known to be larger than what stands there."""
    order = np.lexsort((~is_real, values))
    values, is_real = values[order], is_real[order]
    below = 1.0 - np.cumprod(1.0 - is_real / np.arange(len(values), 0, -1))
    at = np.minimum(np.searchsorted(below, np.array(of) - 1e-9), len(values) - 1)
    return [float(each) for each in values[at]]


def _mode(values: NDArray[np.float64]) -> float:
    """The most likely value: the densest half of the densest half, and so on (Robertson, Cryer)."""
    values = np.sort(values)
    if not len(values):
        return 0.0
    while len(values) > 3:
        half = (len(values) + 1) // 2
        widths = values[half - 1 :] - values[: len(values) - half + 1]
        first = int(np.argmin(widths))
        values = values[first : first + half]
    return float(np.median(values))


def grain_s(seconds: float) -> float:
    """How exact an answer is: minutes within an hour, five minutes within a day, then hours."""
    return 60.0 if seconds < 3600 else 300.0 if seconds < 86400 else 3600.0


def _grained(seconds: float, *, up: bool) -> float:
    grain = grain_s(seconds)
    return float(np.ceil(seconds / grain) if up else np.floor(seconds / grain)) * grain
