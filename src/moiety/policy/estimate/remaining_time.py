"""How long running work will still run, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from moiety.policy.model.snapshot import Running
from moiety.policy.model.workloads import Workload


class RuntimeDistribution(Protocol):
    """How likely work is to have ended after a time, by the history of similar work."""

    def left_s(self, run_s: float, quantile: float = 0.5) -> float:
        """Seconds until work that has run for `run_s` has ended with the likelihood `quantile`."""
        ...


Runtimes = Callable[[Workload], float | RuntimeDistribution | None]
"""What is expected of a workload: the declared run time in seconds; else its distribution from the
history; None: nothing is known."""

SHORTEST_S: Final = 60.0
"""The least remaining time of work that has just begun, or has run for longer than expected."""
LOW: Final = 0.25
HIGH: Final = 0.75
"""The quartiles: half of the work ends between them."""
UNSURE: Final = 3.0
"""Work without an estimate runs between a third and three times as long again as it has run, with
even odds (for run times without a scale, as those of jobs nearly are)."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """Seconds until a task ends: expected, and the bounds that hold in half of all cases."""

    expected_s: float
    least_s: float
    most_s: float


def unknown(_: Workload) -> None:
    """No run time is known."""


def as_long_again(ran_s: float) -> float:
    """What is expected of a task of which only is known how long it has run."""
    return max(ran_s, SHORTEST_S)


def remaining(workload: Workload, running: Running, now_s: float, runtimes: Runtimes) -> Remaining:
    """The remaining time of a running task: expected less past run time, within its maximum.

    From the history, it is the median and the quartiles of the remaining time. Without an estimate,
    it is as long again as the task has run.
    """
    ran = max(now_s - running.since_s, 0.0)
    known = runtimes(workload)
    if known is not None and not isinstance(known, int | float):
        found = (known.left_s(ran), known.left_s(ran, LOW), known.left_s(ran, HIGH))
    elif known is not None and known > ran:
        found = (known - ran, (known - ran) / 2, (known - ran) * 2)
    else:
        left = as_long_again(ran)
        found = (left, left / UNSURE, left * UNSURE)
    if workload.max_run_s is not None:
        most = max(workload.max_run_s - ran, 0.0)
        found = (min(found[0], most), min(found[1], most), min(found[2], most))
    return Remaining(*found)


def takes_at_most(workload: Workload, runtimes: Runtimes) -> float | None:
    """How long a workload that begins now will run at most; None: not known.

    From the history, it is the time within which three of four similar workloads end: a workload
    that runs longer in reserved room delays the one with the reservation.
    """
    known = runtimes(workload)
    if known is not None and not isinstance(known, int | float):
        known = known.left_s(0.0, HIGH)
    if known is None:
        return workload.max_run_s
    return known if workload.max_run_s is None else min(known, workload.max_run_s)
