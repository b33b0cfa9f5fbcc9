"""When waiting work begins, as the engine foresees it: it decides ahead of time.

A forecast is a small world that begins with what is there now. Work ends when it is expected to,
the engine decides, what it decides happens, until the workload in question begins. What has not
come yet is left out. Where run times are not known, several worlds draw them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final
from zlib import crc32

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import USUAL, CycleSettings
from moiety.policy.estimate.remaining_time import HIGH, LOW, SHORTEST_S
from moiety.policy.estimate.start_errors import BESIDE_S
from moiety.policy.memory import (
    Began,
    Ended,
    Passed,
    PolicyMemory,
    Stopped,
    Submitted,
    learn,
)
from moiety.policy.model.decisions import CyclePlan, Eviction, Move, Placement
from moiety.policy.model.snapshot import Running, Snapshot, Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.workload_mix import WorkloadMix, typical_work
from moiety.policy.queue.gittins_order import RESTART_S
from moiety.policy.state.kept_state import KeptState

DECISIONS_MAX: Final = 200
"""The most decisions of one world."""
LOOKED_MAX: Final = 200_000
"""The most workloads that all decisions of one world look at: large clusters get fewer of them."""
DRAWS: Final = 3
"""The worlds in which run times are drawn."""
QUARTILES: Final = (LOW, 0.5, HIGH)
ASKED_MAX: Final = 8
"""How often the engine is asked at one moment, if it asks for that because work has ended."""
GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0
"""Multiples of it are spread evenly over what lies between two whole numbers."""

Quantile = Callable[[str], float]
"""How long a workload runs, by its name: 0.5 is the median of what is known of it."""


@dataclass(slots=True)
class _Progress:
    """A workload in a forecast."""

    workload: Workload
    left_s: float
    """Work that was left when it last began or stopped."""
    attained_s: float
    since_s: float | None = None
    """When its work went on; None: it does not run."""
    epoch: int = 0


class Forecast:
    """One world ahead of the present one."""

    def __init__(
        self,
        snapshot: Snapshot,
        known: WorkloadMix | None,
        settings: CycleSettings,
        memory: PolicyMemory | None,
        quantile: Quantile,
    ) -> None:
        self._snapshot = snapshot
        self._known = known
        self._settings = replace(settings, reasons=False)
        self._memory = None if memory is None else memory.fork()
        self._kept = KeptState()
        self._now_s = snapshot.now_s
        self._running = {each.task: each for each in snapshot.running}
        self._exchanged_s = dict(snapshot.exchanged_s)
        self._ends: list[tuple[float, str, int]] = []
        self._work: dict[str, _Progress] = {}
        self._begun_s: dict[str, float] = {}
        """When each began first."""
        self.is_drawn = False
        """Whether any run time is not known."""
        self._enter(quantile)

    def begins(self, names: Collection[str]) -> dict[str, float | None]:
        """Seconds until each begins; None: nothing that is there now lets it begin."""
        began_s = self._now_s
        end_s = self._until(set(names))
        return {
            name: at_s - began_s if (at_s := self._begun_s.get(name, end_s)) is not None else None
            for name in names
        }

    def _until(self, names: set[str]) -> float | None:
        """Let time pass until all have begun; returns when it was given up, None: they never do."""
        decisions = min(DECISIONS_MAX, max(LOOKED_MAX // (len(self._work) + 1), 1))
        look_s: float | None = self._now_s
        asked_s = -math.inf
        while decisions > 0:
            next_s = min(
                self._ends[0][0] if self._ends else math.inf, math.inf if look_s is None else look_s
            )
            if next_s == math.inf:
                return None
            is_asked = self._pass(next_s) or asked_s == -math.inf
            if not is_asked and self._memory and not self._memory.is_moved(self._now_s, asked_s):
                look_s = self._memory.look_s(self._now_s)
                decisions -= 1
                continue
            asked_s = self._now_s
            for _ in range(ASKED_MAX):
                plan = self._decide()
                decisions -= 1
                self._happens(plan)
                if names <= self._begun_s.keys():
                    return self._now_s
                if plan.look_s != self._now_s:
                    break
            look_s = plan.look_s
            if look_s == self._now_s:  # it would take the same room to and fro for ever
                look_s = None if self._memory is None else self._memory.look_s(self._now_s)
        return self._now_s

    def _enter(self, quantile: Quantile) -> None:
        """Say of all work how long it will run."""
        since: dict[str, float] = {}
        for each in self._snapshot.running:
            name = each.task.workload
            since[name] = min(since.get(name, each.since_s), each.since_s)
        ran = sorted(self._now_s - at for at in since.values())
        usual_s = max(ran[len(ran) // 2], SHORTEST_S) if ran else SHORTEST_S
        for workload in self._snapshot.workloads:
            name = workload.name
            began_s = since.get(name)
            if self._memory is not None:
                if not self._memory.knows(name):
                    learn(self._memory, Submitted(workload))
                    if began_s is not None:
                        learn(self._memory, Began(name, began_s))
                done_s = self._memory.attained_s(name, self._now_s)
            else:
                done_s = 0.0 if began_s is None else max(self._now_s - began_s, 0.0)
            left_s = self._left_s(workload, done_s, quantile(name), usual_s)
            if began_s is None:
                self._work[name] = _Progress(workload, left_s, done_s)
                continue
            at_s = max(began_s, self._now_s)
            self._work[name] = _Progress(workload, left_s, done_s, at_s)
            heapq.heappush(self._ends, (at_s + left_s, name, 0))

    def _left_s(self, workload: Workload, done_s: float, quantile: float, usual_s: float) -> float:
        """Seconds of work that are left; `usual_s`: how long others have run."""
        told = self._settings.runtimes(workload)
        if isinstance(told, int | float) and told > done_s:
            # without a memory that learns how true this is, half and twice are its quartiles
            factor = 1.0 if self._memory is not None else 4.0 ** (2.0 * quantile - 1.0)
            left_s = (told - done_s) * factor
        elif told is not None and not isinstance(told, int | float):
            self.is_drawn = True
            left_s = told.left_s(done_s, quantile)
        elif told is None and self._memory is not None:
            self.is_drawn = True
            left_s = self._memory.left_s(workload.name, self._now_s, quantile)
        else:
            self.is_drawn = True
            so_far_s = max(done_s, SHORTEST_S) if done_s else usual_s
            left_s = so_far_s * quantile / (1.0 - quantile)
        if workload.max_run_s is not None:
            left_s = min(left_s, max(workload.max_run_s - done_s, 0.0))
        return left_s

    def _pass(self, until_s: float) -> bool:
        """Let time pass, and work end; returns whether any did."""
        self._now_s = max(until_s, self._now_s)
        if self._memory is not None:
            learn(self._memory, Passed(self._now_s))
        gone = set()
        while self._ends and self._ends[0][0] <= self._now_s:
            _, name, epoch = heapq.heappop(self._ends)
            progress = self._work.get(name)
            if progress is not None and progress.epoch == epoch:
                gone.add(name)
                self._leave(name)
        if gone:
            kept = self._running.items()
            self._running = {task: each for task, each in kept if task.workload not in gone}
        return bool(gone)

    def _leave(self, name: str) -> None:
        progress = self._work.pop(name)
        if self._memory is not None:
            learn(self._memory, Ended(name, progress.attained_s + progress.left_s))

    def _decide(self) -> CyclePlan:
        snapshot = replace(
            self._snapshot,
            workloads=tuple(each.workload for each in self._work.values()),
            running=tuple(self._running.values()),
            now_s=self._now_s,
            exchanged_s=self._exchanged_s,
        )
        return decide(snapshot, self._known, self._settings, memory=self._memory, kept=self._kept)

    def _happens(self, plan: CyclePlan) -> None:
        """Carry out a plan."""
        stopped: dict[str, bool] = {}
        begun: dict[str, list[Task]] = {}
        for each in plan:
            if isinstance(each, Eviction):
                del self._running[each.task]
                stopped[each.task.workload] = each.is_final
                if each.exchange:
                    self._exchanged_s[each.exchange] = self._now_s
            elif isinstance(each, Move):
                self._running[each.task] = replace(self._running[each.task], spot=each.target)
            elif isinstance(each, Placement):
                shape = self._shape(each.task)
                self._running[each.task] = Running(each.task, shape, each.spot, self._now_s)
                begun.setdefault(each.task.workload, []).append(each.task)
        for other in begun:
            self._begun_s.setdefault(other, self._now_s)
        if stopped:
            still = {task.workload for task in self._running}
            for other, is_final in stopped.items():
                if is_final:
                    self._leave(other)
                elif other not in still:
                    self._stop(other)
        for other in begun:
            if self._work[other].since_s is None:
                self._begin(other)

    def _shape(self, task: Task) -> Shape:
        groups = self._work[task.workload].workload.subgroups
        return next(group.shape for group in groups if group.name == task.subgroup)

    def _stop(self, name: str) -> None:
        progress = self._work[name]
        assert progress.since_s is not None
        done_s = max(self._now_s - progress.since_s, 0.0)
        progress.left_s -= done_s
        progress.attained_s += done_s
        progress.since_s = None
        progress.epoch += 1
        if self._memory is not None:
            learn(self._memory, Stopped(name, progress.attained_s))

    def _begin(self, name: str) -> None:
        progress = self._work[name]
        progress.since_s = self._now_s + (RESTART_S if progress.attained_s else 0.0)
        progress.epoch += 1
        heapq.heappush(self._ends, (progress.since_s + progress.left_s, name, progress.epoch))
        if self._memory is not None:
            learn(self._memory, Began(name, progress.since_s, progress.attained_s))


@dataclass(frozen=True, slots=True)
class Start:
    """When a workload is expected to begin, in seconds from now; None: that cannot be foreseen."""

    expected_s: float | None
    earliest_s: float | None
    latest_s: float | None
    """It begins between these two in four of five cases, where a memory has learned how true such
    answers are; else they hold if all tasks in the way end early, or late."""
    foreseen_s: float | None = None
    """What the engine foresees, before past errors correct it: a memory learns from it
    (`memory.Foreseen`)."""


def expected_start(
    snapshot: Snapshot,
    name: str,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    memory: PolicyMemory | None = None,
) -> Start:
    """When a workload that waits will begin.

    With a memory, what it has learned of run times and of past answers counts.
    """
    return expected_starts(snapshot, [name], known, settings, memory)[name]


def expected_starts(
    snapshot: Snapshot,
    names: Collection[str],
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    memory: PolicyMemory | None = None,
) -> dict[str, Start]:
    """When each of these workloads that wait will begin: all in the same worlds."""
    known = known or typical_work(snapshot.workloads)
    drawn = map(_all_at, QUARTILES) if memory is None else map(_drawn, range(DRAWS))
    worlds: list[dict[str, float | None]] = []
    for quantile in drawn:
        world = Forecast(snapshot, known, settings, memory, quantile)
        worlds.append(world.begins(names))
        if memory is not None and not world.is_drawn:
            break
    return {name: _start_of([each[name] for each in worlds], snapshot, memory) for name in names}


def _start_of(waits: list[float | None], snapshot: Snapshot, memory: PolicyMemory | None) -> Start:
    """The start that several worlds foresee."""
    if memory is None:
        early, usual, late = sorted(waits, key=lambda each: math.inf if each is None else each)
        return Start(usual, early, late, usual)
    seen = [each for each in waits if each is not None]
    if len(seen) < len(waits):
        return Start(None, min(seen, default=None), None)
    foreseen_s = math.exp(fmean(math.log(each + BESIDE_S) for each in seen)) - BESIDE_S
    wait = memory.starts.corrected(foreseen_s, snapshot.now_s)
    if wait is None:
        return Start(foreseen_s, min(seen), max(seen), foreseen_s)
    return Start(wait.expected_s, wait.earliest_s, wait.latest_s, foreseen_s)


def _all_at(quantile: float) -> Quantile:
    return lambda _: quantile


def _drawn(draw: int) -> Quantile:
    """The same draw for a workload in each forecast; all draws of one are spread evenly."""

    def quantile(name: str) -> float:
        at = (crc32(name.encode()) / 2**32 + (draw + 1) * GOLDEN) % 1.0
        return min(max(at, 0.01), 0.99)

    return quantile
