"""Orders that were published, to compare with: FIFO, backfill, SJF, SRTF, SRSF, LAS, Tiresias.

The orders that preempt place all gangs anew at each event, as the published simulators do: moving
costs nothing there, which favours these orders. SJF, SRTF and SRSF know how long work takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from moiety.sim.runs import GpuPool, Run

GPU_HOURS_8: Final = 8 * 3600.0
TIRESIAS_LIMITS: Final = (3250.0, 7200.0)
"""GPU seconds after which the published simulator moves a job to its second and third queue"""


class _Plain:
    """An order that keeps nothing about gangs that arrive or end."""

    def came(self, run: Run, pool: GpuPool) -> None:
        """Nothing to note."""

    def ended(self, run: Run, pool: GpuPool) -> None:
        """Nothing to note."""


@dataclass(slots=True)
class Serve(_Plain):
    """Starts waiting gangs in an order, and stops none."""

    name: str
    key: Callable[[Run], tuple[float, int]] = lambda run: (0.0, run.number)
    passes: bool = False
    """True if a gang that fits may start before an earlier one that does not"""

    def decide(self, pool: GpuPool) -> float | None:
        """Start waiting gangs in the order of `key`, as far as they fit."""
        smallest = 1 << 60
        for run in sorted(pool.waiting.values(), key=self.key):
            if run.gang.gpus >= smallest:
                continue
            seats = pool.nodes.find(run.gang.gpus)
            if seats is not None:
                pool.start(run, seats)
                continue
            if not self.passes:
                break
            smallest = _closed(pool, run.gang.gpus, smallest)
        return None


def _closed(pool: GpuPool, gpus: int, smallest: int) -> int:
    """The smallest gang without room: on one node, a larger gang has no room either."""
    return min(smallest, gpus) if gpus <= pool.nodes.largest else smallest


@dataclass(slots=True)
class Shortest(_Plain):
    """Runs the gangs with the least time (SRTF) or GPU time (SRSF) left."""

    name: str
    by_gpus: bool = False

    def decide(self, pool: GpuPool) -> float | None:
        """Place all gangs anew."""
        now = pool.now_s

        def key(run: Run) -> tuple[float, int]:
            return run.left(now) * (run.gang.gpus if self.by_gpus else 1), run.number

        _again(pool, sorted([*pool.running.values(), *pool.waiting.values()], key=key))
        return None


@dataclass(slots=True)
class Las(_Plain):
    """Least attained service in few steps, after Tiresias (Gu et al., NSDI '19).

    Gangs that have had less GPU time than the first limit come before gangs that have had more.
    Within a step, running gangs keep running, and the rest is first come, first served. `rotates`:
    as in the published simulator, a gang that drops to the next step goes to its end, behind the
    gangs that wait there.
    """

    name: str
    limits: tuple[float, ...] = (GPU_HOURS_8,)
    rotates: bool = False
    _step: dict[int, int] = field(default_factory=dict)
    _turn: dict[int, int] = field(default_factory=dict)
    _count: int = 0

    def came(self, run: Run, pool: GpuPool) -> None:
        """The gang begins in the first step."""
        self._step[run.number] = 0
        self._turn[run.number] = self._next()

    def _next(self) -> int:
        self._count += 1
        return self._count

    def decide(self, pool: GpuPool) -> float | None:
        """Place all gangs anew; returns when the next gang drops a step."""
        now = pool.now_s
        for run in pool.running.values():
            step = self._step[run.number]
            served = run.attained(now) * run.gang.gpus
            while step < len(self.limits) and served >= self.limits[step] - 1e-3:
                step += 1
                self._turn[run.number] = self._next()
            self._step[run.number] = step

        def key(run: Run) -> tuple[int, int, int]:
            second = self._turn[run.number] if self.rotates else int(not run.is_running)
            return self._step[run.number], second, run.number

        ranked = sorted([*pool.running.values(), *pool.waiting.values()], key=key)
        _again(pool, ranked)
        if self.rotates:
            for run in ranked:
                if not run.is_running:
                    self._turn[run.number] = self._next()
        drops = [
            run.since_s + self.limits[self._step[run.number]] / run.gang.gpus - run.attained_s
            for run in pool.running.values()
            if self._step[run.number] < len(self.limits)
        ]
        return min(drops, default=None)


def _again(pool: GpuPool, ranked: Sequence[Run]) -> None:
    """Place the gangs in this order on an empty cluster, as far as they fit."""
    nodes = pool.nodes
    free = [size if up else 0 for size, up in zip(nodes.size, nodes.up, strict=True)]
    plan = []
    smallest = 1 << 60
    for run in ranked:
        if run.gang.gpus >= smallest:
            continue
        seats = nodes.find(run.gang.gpus, free)
        if seats is None:
            smallest = _closed(pool, run.gang.gpus, smallest)
            if smallest == 1:
                break
            continue
        for at, gpus in seats:
            free[at] -= gpus
        plan.append((run, seats))
    pool.reseat(plan, free)


def baseline(name: str) -> Serve | Shortest | Las:
    """A new baseline by its name."""

    def shortest(run: Run) -> tuple[float, int]:
        return run.gang.duration_s, run.number

    made: dict[str, Callable[[], Serve | Shortest | Las]] = {
        "fifo": lambda: Serve("fifo"),
        "backfill": lambda: Serve("backfill", passes=True),
        "sjf": lambda: Serve("sjf", shortest, passes=True),
        "srtf": lambda: Shortest("srtf"),
        "srsf": lambda: Shortest("srsf", by_gpus=True),
        "las": lambda: Las("las"),
        "tiresias": lambda: Las("tiresias", TIRESIAS_LIMITS, rotates=True),
    }
    return made[name]()


NAMES: Final = ("fifo", "backfill", "sjf", "srtf", "srsf", "las", "tiresias")
KNOWS: Final = frozenset({"sjf", "srtf", "srsf"})
"""The baselines that know how long work takes."""
