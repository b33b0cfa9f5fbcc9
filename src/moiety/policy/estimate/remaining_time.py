"""How long what runs will still run, as far as anybody knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from moiety.policy.model.snapshot import Running
from moiety.policy.model.workloads import Workload


class Odds(Protocol):
    """How likely work is to have ended after so long, as far as the past tells."""

    def left_s(self, run_s: float, quantile: float = 0.5) -> float:
        """Seconds after which it has ended with that likelihood, having run so long."""
        ...


Runtimes = Callable[[Workload], float | Odds | None]
"""what is expected of a workload: how many seconds it runs in all, where somebody said so; the odds
from the past, where not; None: nothing is known"""

SHORTEST_S: Final = 60.0
"""of what has just begun, and of what has run for longer than was expected"""
LOW: Final = 0.25
HIGH: Final = 0.75
"""the quartiles: half of the time it is in between"""
UNSURE: Final = 3.0
"""what nothing is known of runs between a third and three times as long again as it has run, with
even odds (of run times without a scale, as those of jobs nearly are)"""


@dataclass(frozen=True, slots=True)
class Remaining:
    """Seconds until something ends: as expected, and within which bounds half of the time."""

    expected_s: float
    least_s: float
    most_s: float


def unknown(_: Workload) -> None:
    """Nothing is known of anybody."""


def remaining(workload: Workload, running: Running, now_s: float, runtimes: Runtimes) -> Remaining:
    """Of a task that runs: what is expected less what it has run, never beyond its maximum.

    From the past, the median and the quartiles of what is left. Of what nobody knows anything of,
    as long again as it has run.
    """
    ran = max(now_s - running.since_s, 0.0)
    known = runtimes(workload)
    if known is not None and not isinstance(known, int | float):
        found = (known.left_s(ran), known.left_s(ran, LOW), known.left_s(ran, HIGH))
    elif known is not None and known > ran:
        found = (known - ran, (known - ran) / 2, (known - ran) * 2)
    else:
        left = max(ran, SHORTEST_S)
        found = (left, left / UNSURE, left * UNSURE)
    if workload.max_run_s is not None:
        most = max(workload.max_run_s - ran, 0.0)
        found = (min(found[0], most), min(found[1], most), min(found[2], most))
    return Remaining(*found)


def takes_at_most(workload: Workload, runtimes: Runtimes) -> float | None:
    """How long one that begins now will run; None: nobody knows.

    From the past, what three of four of its like stay within: who is in somebody's place then
    delays who waits for it.
    """
    known = runtimes(workload)
    if known is not None and not isinstance(known, int | float):
        known = known.left_s(0.0, HIGH)
    if known is None:
        return workload.max_run_s
    return known if workload.max_run_s is None else min(known, workload.max_run_s)
