"""Asks in a replay when waiting jobs will begin, as users do, and compares that with what came.

A job is asked about once, when it has come and has to wait. The answers are those of `explain`.
The engine's memory is told what was said, and learns from it as the jobs begin.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.forecast import Start, expected_start
from moiety.policy.memory import Foreseen, learn
from moiety.policy.model.workloads import Workload
from moiety.sim.engine import MIX, SETTINGS, Engine
from moiety.sim.gangs import GangTrace
from moiety.sim.runs import SAME_S, GpuPool, Order, Run

WAITS_S: Final = 60.0
"""Jobs that begin sooner are not counted."""
SHORT_S: Final = 300.0
"""Errors are parts of the real wait, or of this if the wait is shorter."""
RECENT: Final = 200
"""The waits that the baseline knows: those of the jobs that began last."""
LEAST: Final = 20
MISSED: Final = 0.2
"""The part of the begins that may lie outside the interval."""


@dataclass(frozen=True, slots=True)
class StartQuestions:
    """Which jobs are asked about."""

    jobs: int
    """The number of jobs that are sampled; those that begin at once need no answer."""
    is_known: bool = False
    """Whether run times are declared, and true; else the engine knows what it has learned."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StartScore:
    """How true the answers were."""

    waited: int
    """Jobs that were asked about and then waited for more than a minute."""
    error_median: float | None = None
    """Of |expected - real wait| over the real wait, or over five minutes if it was shorter."""
    error_mean: float | None = None
    bounded: int = 0
    """Answers of which past answers told the interval."""
    coverage: float | None = None
    """The part of the intervals that held; 0.8 is right."""
    score_ratio: float | None = None
    """The mean interval score over that of the 10 % and 90 % quantiles of recent waits."""


@dataclass(frozen=True, slots=True)
class _Answer:
    number: int
    at_s: float
    start: Start
    is_bounded: bool


class StartWatch:
    """Asks after each decision about jobs that have just come."""

    def __init__(self, trace: GangTrace, order: Order, questions: StartQuestions) -> None:
        if not isinstance(order, Engine):
            problem = f"the order {order.name} does not say when jobs begin"
            raise InvalidValue(problem, "--order default")
        self._engine = order
        self._gangs = trace.gangs
        count = len(trace.gangs)
        sampled = random.Random(questions.seed).sample(range(count), min(questions.jobs, count))
        self._next = sorted(sampled, reverse=True)
        """The numbers that are still to come, the first one last."""
        self._settings = SETTINGS
        if questions.is_known:
            self._settings = _knowing(
                {f"{at:07}": g.duration_s for at, g in enumerate(self._gangs)}
            )
        self._answers: list[_Answer] = []

    def __call__(self, pool: GpuPool) -> None:
        """Ask about those that came at this moment and wait."""
        while self._next and self._gangs[self._next[-1]].submitted_s <= pool.now_s + SAME_S:
            number = self._next.pop()
            if number in pool.waiting:
                self._ask(number, pool)

    def _ask(self, number: int, pool: GpuPool) -> None:
        memory, name = self._engine.memory, f"{number:07}"
        snapshot = self._engine.snapshot(pool)
        start = expected_start(snapshot, name, MIX, self._settings, memory)
        if start.foreseen_s is None:
            return
        is_bounded = memory.starts.is_known
        self._answers.append(_Answer(number, pool.now_s, start, is_bounded))
        learn(memory, Foreseen(name, pool.now_s, start.foreseen_s))

    def score(self, runs: Sequence[Run]) -> StartScore:
        """Compare with what came."""
        began = {run.number: run.began_s for run in runs if run.began_s is not None}
        waited = [each for each in self._answers if began[each.number] - each.at_s > WAITS_S]
        if not waited:
            return StartScore(0)
        errors = []
        for each in waited:
            real_s = began[each.number] - each.at_s
            errors.append(abs((each.start.expected_s or 0.0) - real_s) / max(real_s, SHORT_S))
        held, scores, usual = [], [], []
        for each in waited:
            recent = self._recent(each, began)
            if not each.is_bounded or recent is None:
                continue
            real_s = began[each.number] - each.at_s
            low, high = each.start.earliest_s or 0.0, each.start.latest_s or 0.0
            held.append(low <= real_s <= high)
            scores.append(interval_score(low, high, real_s))
            usual.append(interval_score(*recent, real_s))
        return StartScore(
            len(waited),
            median(errors),
            fmean(errors),
            len(held),
            fmean(held) if held else None,
            fmean(scores) / fmean(usual) if held and fmean(usual) else None,
        )

    def _recent(self, of: _Answer, began: Mapping[int, float]) -> tuple[float, float] | None:
        """The baseline: quantiles of the last waits that ended before an answer."""
        found = [
            (at_s, at_s - each.at_s)
            for each in self._answers
            if each.at_s < of.at_s and (at_s := began[each.number]) <= of.at_s
        ]
        if len(found) < LEAST:
            return None
        waits = sorted(wait_s for _, wait_s in sorted(found)[-RECENT:])
        return waits[int(len(waits) * MISSED / 2)], waits[int(len(waits) * (1 - MISSED / 2))]


def interval_score(low: float, high: float, real: float) -> float:
    """Gneiting's and Raftery's: the width, and ten times (2 / 0.2) what lies outside."""
    return high - low + 2 / MISSED * (max(low - real, 0.0) + max(real - high, 0.0))


def _knowing(durations: Mapping[str, float]) -> CycleSettings:
    def known(workload: Workload) -> float | None:
        return durations.get(workload.name)

    return CycleSettings(
        moves_max=SETTINGS.moves_max,
        reservations=SETTINGS.reservations,
        reasons=SETTINGS.reasons,
        runtimes=known,
    )
