"""The default order of gangs whose run time is unknown: by worth, with preemption that costs.

Estimates and order come from the policy package (`runtime_estimator`, `gittins_order`); this module
asks for them only when something has changed, and gives gangs their nodes. No gang moves for free:
a gang that makes room stops, waits, and goes on elsewhere at the cost of a restart.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from moiety.policy.estimate.runtime_estimator import RuntimeEstimator, next_edge, span_of
from moiety.policy.queue import gittins_order
from moiety.sim.runs import GpuPool, Run

ANY = 1 << 60


class Worth:
    """The order `default`."""

    name = "default"

    def __init__(self) -> None:
        self._history = RuntimeEstimator()
        self._active: dict[int, Run] = {}
        self._value: dict[int, float] = {}
        """The worth of each gang that waits or runs, without its age."""
        self._stale: set[int] = set()
        self._edges: list[tuple[float, int, int]] = []
        """A heap of when each running gang enters its next span: time, number, epoch."""

    def came(self, run: Run, pool: GpuPool) -> None:
        """Add the gang to the history."""
        gang = run.gang
        row = self._history.came((gang.queue, gang.user, gang.gpus), gang.submitted_s)
        assert row == run.number  # both count in the order in which gangs come
        self._active[row] = run
        self._stale.add(row)

    def ended(self, run: Run, pool: GpuPool) -> None:
        """Add the gang's run time to the history; estimates of similar gangs change."""
        self._history.ended(run.number, run.attained_s)
        self._stale.update(self._history.near(run.number))
        self._active.pop(run.number, None)
        self._value.pop(run.number, None)

    def expected_s(self, run: Run, now_s: float, quantile: float = 0.5) -> float:
        """Seconds of work after which the gang has ended with the likelihood `quantile`."""
        return self._history.left_s(run.number, run.attained(now_s), quantile)

    def follow(self, pool: GpuPool) -> None:
        """Note the gangs that have begun, and the gangs that have entered another span."""
        now = pool.now_s
        for new in pool.newly:
            if new.is_running:
                edge_s = new.since_s + next_edge(new.attained_s) - new.attained_s
                heapq.heappush(self._edges, (edge_s, new.number, new.epoch))
            self._stale.add(new.number)
        pool.newly.clear()
        while self._edges and self._edges[0][0] <= now + 1e-3:
            _, number, epoch = heapq.heappop(self._edges)
            run = pool.running.get(number)
            if run is None or run.epoch != epoch:
                continue
            done = run.attained(now)
            if self._history.ran(number, done):
                self._stale.update(self._history.near(number))
            self._stale.add(number)
            edge_s = run.since_s + next_edge(done) - run.attained_s
            heapq.heappush(self._edges, (edge_s, number, epoch))

    def refresh(self, pool: GpuPool) -> dict[int, float]:
        """The present worth of each gang, by its number."""
        self.follow(pool)
        now = pool.now_s
        stale = [self._active[number] for number in sorted(self._stale & self._active.keys())]
        self._stale.clear()
        if stale:
            values = gittins_order.worth(
                self._history.chances([run.number for run in stale]),
                [span_of(run.attained(now)) for run in stale],
                [run.gang.gpus for run in stale],
                [run.is_running for run in stale],
            )
            self._value.update(zip((run.number for run in stale), values.tolist(), strict=True))
        value = self._value
        found = {
            number: gittins_order.aged(value[number], now - run.gang.submitted_s - run.attained_s)
            for number, run in pool.waiting.items()
        }
        for number, run in pool.running.items():
            waited_s = now - run.gang.submitted_s - run.attained(now)
            found[number] = gittins_order.aged(value[number], waited_s)
        return found

    def looks(self, pool: GpuPool) -> float | None:
        """When the next gang enters its next span; None if no gang waits, or none runs."""
        if not pool.waiting:
            return None
        while self._edges:
            edge_s, number, epoch = self._edges[0]
            run = pool.running.get(number)
            if run is not None and run.epoch == epoch:
                return edge_s
            heapq.heappop(self._edges)
        return None

    def decide(self, pool: GpuPool) -> float | None:
        """Run the gangs of most worth."""
        if not pool.waiting:
            self.follow(pool)
            return None
        values = self.refresh(pool)
        if pool.has_news or self._is_moved(pool, values):
            ranked = sorted(pool.waiting, key=lambda number: (-values[number], number))
            self.serve(pool, ranked, values)
        self.follow(pool)
        return self.looks(pool)

    def _is_moved(self, pool: GpuPool, values: dict[int, float]) -> bool:
        most = max(values[number] for number in pool.waiting)
        least = min((values[number] for number in pool.running), default=0.0)
        return gittins_order.yields(least, most)

    def serve(self, pool: GpuPool, ranked: Sequence[int], values: dict[int, float]) -> None:
        """Start waiting gangs in this order, if need be in the place of gangs that yield."""
        largest = max(pool.nodes.size)
        full = ANY  # a gang of this size or larger finds no room on one node
        kept: set[int] = set()
        """Sizes for which no running gang yields."""
        has_stopped = False
        for number in ranked:
            run = pool.waiting[number]
            gpus = run.gang.gpus
            if gpus < full:
                seats = pool.nodes.find(gpus)
                if seats is not None:
                    pool.start(run, seats)
                    continue
                if gpus <= largest:
                    full = gpus
            if gpus in kept:
                continue
            victims = who_yields(pool, run, values)
            if victims is None:
                kept.add(gpus)
                continue
            for victim in victims:
                pool.stop(victim)
            has_stopped, full = True, ANY
            seats = pool.nodes.find(gpus)
            if seats is not None:
                pool.start(run, seats)
        if has_stopped:
            start_all(pool, sorted(pool.waiting, key=lambda number: (-values[number], number)))


def start_all(pool: GpuPool, ranked: Iterable[int]) -> None:
    """Start the gangs that have room, in this order."""
    largest, full = max(pool.nodes.size), ANY
    for number in ranked:
        run = pool.waiting[number]
        if run.gang.gpus >= full:
            continue
        seats = pool.nodes.find(run.gang.gpus)
        if seats is not None:
            pool.start(run, seats)
        elif run.gang.gpus <= largest:
            full = run.gang.gpus


def who_yields(pool: GpuPool, run: Run, values: dict[int, float]) -> list[Run] | None:
    """The gangs to stop for `run`, with the least worth lost; None: stopping is not enough."""
    mine = values[run.number]
    below = [
        (values[number], number)
        for number in pool.running
        if gittins_order.yields(values[number], mine)
    ]
    if not below:
        return None
    below.sort()
    return clear(pool, run.gang.gpus, [(value, pool.running[number]) for value, number in below])


def clear(pool: GpuPool, gpus: int, below: Sequence[tuple[float, Run]]) -> list[Run] | None:
    """Which of `below`, least value first, to stop so that a gang has room; None: not enough."""
    nodes = pool.nodes
    on: dict[int, list[tuple[float, int, Run]]] = {}
    for value, run in below:
        for at, part in run.seats:
            on.setdefault(at, []).append((value, part, run))
    largest = max(nodes.size)
    per = min(gpus, largest)
    needed = -(-gpus // largest)
    found: list[tuple[float, int, list[Run]]] = []
    for at, free in enumerate(nodes.free):
        if nodes.size[at] < per or not nodes.up[at]:
            continue
        plan = _on_node(free, per, on.get(at, ()))
        if plan is not None:
            found.append((plan[0], at, plan[1]))
    if len(found) < needed:
        return None
    stopped: dict[int, Run] = {}
    for _ in range(needed):
        # A gang that stops on one node makes other nodes cheaper where it has GPUs too.
        best = min(found, key=lambda each: (each[0], each[1]))
        found.remove(best)
        new = [run for run in best[2] if run.number not in stopped]
        stopped.update((run.number, run) for run in new)
        spread = {run.number for run in new if len(run.seats) > 1}
        if spread:
            worth = {run.number: value * run.gang.gpus for value, run in below}
            found = [
                (harm - sum(worth[r.number] for r in runs if r.number in spread), at, runs)
                for harm, at, runs in found
            ]
    return list(stopped.values())


def _on_node(
    free: int, per: int, there: Sequence[tuple[float, int, Run]]
) -> tuple[float, list[Run]] | None:
    """The harm, and the gangs to stop so that `per` GPUs are free on a node."""
    chosen: list[tuple[float, int, Run]] = []
    for each in there:
        if free >= per:
            break
        free += each[1]
        chosen.append(each)
    if free < per:
        return None
    for each in reversed(chosen[:]):
        if free - each[1] >= per:
            free -= each[1]
            chosen.remove(each)
    harm = sum(value * run.gang.gpus for value, _, run in chosen)
    return harm, [run for _, _, run in chosen]
