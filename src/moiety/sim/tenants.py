"""Gangs in queues: quota first, then fair share, and within a queue by worth.

What a queue may have and should have is policy's (`queues`, `standing`); so is the right by which
somebody yields: who is within quota takes from who is above it, who is within its fair share from
who is above its own, who has credit for a turn (`credit`) from who is in debt, and within a queue
who is worth more from who is worth less. Who is within quota also gets a place if that takes moving
smaller gangs, which then take theirs the same way. If somebody within quota waits even so, all of
them get seats anew (`repack`), which ends the round.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import WEEK_S, Queue
from moiety.policy.queue import gittins_order
from moiety.policy.queue.deficit import parts_of, passed
from moiety.policy.queue.queue_usage import GPU_MILLI, QueueUsage, Vector
from moiety.sim.repack import repack
from moiety.sim.runs import GpuPool, Run
from moiety.sim.worth import Worth, clear

LOOK_S: Final = 600.0
"""running on changes the order at most so often"""
BORDER_S: Final = 1e-3
"""a border that is nearer than that has been reached: sums of seconds are not exact"""
MOVED: Final = 1e6
"""times the worth: who would only be moved comes last among those that make room"""
STOPS_MAX: Final = 2
"""of one gang in a round"""
QUOTA, FAIR, CREDIT, BEYOND = range(4)
Turn = tuple[int, int, float]
"""of a queue: its rank with what it asks for next, its priority, and its ratio then"""


class Tenants(Worth):
    """The order `default` where gangs have queues.

    Raises InvalidValue for an unknown queue, or one whose limit is below what a gang needs.
    """

    def __init__(self, queues: Iterable[Queue], monday_s: float = 0.0) -> None:
        super().__init__()
        self.standing = QueueUsage(queues)
        self._counted: Counter[str] = Counter()
        self._monday_s = monday_s
        self._borders = self.standing.tree.borders()
        self._parts: dict[str, float] = {}
        self._parts_of = -1
        """how many GPUs those are parts of"""
        self._looked_s: float | None = None
        """when it last decided"""
        self._waited = False
        """whether somebody waited after that"""

    def came(self, run: Run, pool: GpuPool) -> None:
        """It waits in its queue."""
        gang, name = run.gang, run.gang.name or f"number {run.number}"
        self.standing.check(gang.queue, name)
        for above in self.standing.paths[gang.queue]:
            limit = self.standing.limit[above][GPU_MILLI]
            if limit is not None and gang.gpus * WHOLE_GPU > limit:
                raise InvalidValue(
                    f"{name} wants {gang.gpus} GPUs, and queue {above} never has more than "
                    f"{limit / WHOLE_GPU:g}"
                )
        super().came(run, pool)

    def looks(self, pool: GpuPool) -> float | None:
        """Not at each span; but when another quota begins to hold."""
        edge = super().looks(pool)
        found = None if edge is None else max(edge, pool.now_s + LOOK_S)
        if not self._borders or not pool.waiting:
            return found
        border = pool.now_s + next_border(self._borders, pool.now_s - self._monday_s)
        return border if found is None else min(found, border)

    def decide(self, pool: GpuPool) -> float | None:
        """Serve queue by queue, whoever is furthest below what it should have."""
        self._give_credit(pool)
        if not pool.waiting:
            self.follow(pool)
            return None
        values = self.refresh(pool)
        if self._borders:
            self.standing.at(pool.now_s - self._monday_s)
        self._count(pool)
        waiting = {queue: (gpus * WHOLE_GPU, 0, 0, 0) for queue, gpus in pool.asked.items() if gpus}
        self.standing.share_out((pool.nodes.gpus * WHOLE_GPU, 0, 0, 0), waiting)
        _Round(self, pool, values).serve()
        self._waited = bool(pool.waiting)
        self.follow(pool)
        return self.looks(pool)

    def _give_credit(self, pool: GpuPool) -> None:
        """For the time since the last decision, in which nothing began or ended."""
        if self._looked_s is not None:
            standing = self.standing
            has = {name: now[GPU_MILLI] / WHOLE_GPU for name, now in standing.has.items()}
            gpus = pool.nodes.gpus
            if self._waited and (self._borders or gpus != self._parts_of):
                self._parts, self._parts_of = parts_of(standing, gpus), gpus
            parts = self._parts if self._waited else has
            elapsed_s = pool.now_s - self._looked_s
            standing.credit = passed(standing.credit, parts, has, elapsed_s)
        self._looked_s, self._waited = pool.now_s, False

    def _count(self, pool: GpuPool) -> None:
        """Tell the standing what has begun and ended."""
        for queue, gpus in pool.held.items():
            change = gpus - self._counted[queue]
            if change:
                self.hold(queue, change)

    def hold(self, queue: str, gpus: int) -> None:
        """A queue has so many GPUs more, or less."""
        self._counted[queue] += gpus
        self.standing.add(queue, (gpus * WHOLE_GPU, 0, 0, 0), 1, guaranteed=False)


class _Round:
    """One round of serving."""

    def __init__(self, order: Tenants, pool: GpuPool, values: dict[int, float]) -> None:
        self.order, self.pool, self.values = order, pool, values
        self.standing = order.standing
        self.lines: dict[str, list[Run]] = {}
        for run in pool.waiting.values():
            self.lines.setdefault(run.gang.queue, []).append(run)
        for line in self.lines.values():
            line.sort(key=lambda run: (values[run.number], -run.number))
        self.closed: set[tuple[str, int, int]] = set()
        self.full = 1 << 60
        self.stopped: Counter[int] = Counter()
        """how often each was stopped in this round: two within quota could do so for ever"""
        self._turns: list[tuple[Turn, str]] = []
        """a heap of the queues with somebody left to try; right until somebody starts or stops"""
        self._keys: dict[tuple[str, int], Turn] = {}
        self._in_vain: set[tuple[str, int]] = set()
        """queues and sizes for which the last one had no room, and so have those after it none"""
        self._ranked: list[Run] = []
        """who runs, of least value first"""
        self._ranked_of = self._turns_of = -1

    def serve(self) -> None:
        """Until nobody is left to try."""
        while self.lines:
            if self._turns_of != self.standing.version:
                self._turns_of = self.standing.version
                self._keys.clear()
                self._in_vain.clear()
                self._turns = [(self._key(queue), queue) for queue in self.lines]
                heapq.heapify(self._turns)
            (rank, *_), queue = self._turns[0]
            line = self.lines[queue]
            run = line.pop()
            gpus = run.gang.gpus
            if (queue, gpus) not in self._in_vain:
                is_like_others = not self.stopped[run.number]
                self._attempt(run, rank)
                if is_like_others:
                    self._in_vain.add((queue, gpus))
            if self._turns_of == self.standing.version and (queue, gpus) in self._in_vain:
                while line and line[-1].gang.gpus == gpus:
                    line.pop()
            if not line:
                del self.lines[queue]
                heapq.heappop(self._turns)
            else:
                heapq.heapreplace(self._turns, (self._key(queue), queue))
        if self._is_anybody_entitled():
            self._repack()

    def _is_anybody_entitled(self) -> bool:
        """Whether somebody waits who would stay within quota."""
        asking = (queue for queue, gpus in self.pool.asked.items() if gpus)
        one = (WHOLE_GPU, 0, 0, 0)
        open_ = {queue for queue in asking if self.standing.within(queue, 0, one, quota=True)}
        if not open_:
            return False
        gangs = (run.gang for run in self.pool.waiting.values() if run.gang.queue in open_)
        return any(self._may(*kind) for kind in {(gang.queue, gang.gpus) for gang in gangs})

    def _may(self, queue: str, gpus: int) -> bool:
        more = (gpus * WHOLE_GPU, 0, 0, 0)
        is_within = self.standing.within(queue, 0, more, quota=True)
        return is_within and not self.standing.over_limit(queue, more)

    def _repack(self) -> None:
        """Seats anew for all within quota: the last of a round, so that nothing undoes it."""
        runs = sorted(self.pool.running.values(), key=self._by_value)
        waits = sorted(self.pool.waiting.values(), key=self._by_value)
        must, others = self._entitled(runs, waits)
        plan = repack(self.pool.nodes, must, others, self.values)
        if plan is None:
            return
        for run in plan.stops:
            self.pool.stop(run)
            self.order.hold(run.gang.queue, -run.gang.gpus)
        for run, seats in plan.starts:
            self._start(run, seats)

    def _by_value(self, run: Run) -> tuple[float, int]:
        return -self.values[run.number], run.number

    def _entitled(self, runs: Sequence[Run], waits: Sequence[Run]) -> tuple[list[Run], list[Run]]:
        """Who fits within quota together, those that run first; and who else runs.

        Whoever waits and is not among them would break a quota beside them.
        """
        had: Counter[str] = Counter()
        must, others = [], []
        for run in (*runs, *waits):
            gpus = run.gang.gpus * WHOLE_GPU
            path = self.standing.paths[run.gang.queue]
            bounds = ((had[name], self.standing.quota[name][GPU_MILLI]) for name in path)
            if all(bound is None or has + gpus <= bound for has, bound in bounds):
                must.append(run)
                had.update(dict.fromkeys(path, gpus))
            elif run.is_running:
                others.append(run)
        return must, others

    def _key(self, queue: str) -> Turn:
        gpus = self.lines[queue][-1].gang.gpus
        key = self._keys.get((queue, gpus))
        if key is None:
            more = (gpus * WHOLE_GPU, 0, 0, 0)
            priority = self.standing.tree.queues[queue].priority
            key = self._rank(queue, more), -priority, self.standing.ratio(queue, more)
            self._keys[queue, gpus] = key
        return key

    def _rank(self, queue: str, more: Vector) -> int:
        if self.standing.within(queue, 0, more, quota=True):
            return QUOTA
        if self.standing.within(queue, 0, more, quota=False):
            return FAIR
        return CREDIT if self.standing.has_turn(queue, 0, more) else BEYOND

    def _attempt(self, run: Run, rank: int) -> None:
        gang, nodes = run.gang, self.pool.nodes
        if self.standing.over_limit(gang.queue, (gang.gpus * WHOLE_GPU, 0, 0, 0)):
            return
        if gang.gpus < self.full:
            seats = nodes.find(gang.gpus)
            if seats is not None:
                self._start(run, seats)
                return
            if gang.gpus <= max(nodes.size):
                self.full = gang.gpus
        kind = (gang.queue, gang.gpus, rank)
        if kind in self.closed or (rank != QUOTA and self.stopped[run.number]):
            return
        below = self._below(run, rank)
        victims = clear(self.pool, gang.gpus, below)
        if victims is None:
            self.closed.add(kind)
            return
        for victim in victims:
            self.pool.stop(victim)
            self.order.hold(victim.gang.queue, -victim.gang.gpus)
            self.stopped[victim.number] += 1
            line = self.lines.setdefault(victim.gang.queue, [])
            line.append(victim)
            line.sort(key=lambda each: (self.values[each.number], -each.number))
        self.full = 1 << 60
        seats = nodes.find(gang.gpus)
        if seats is not None:
            self._start(run, seats)

    def _start(self, run: Run, seats: tuple[tuple[int, int], ...]) -> None:
        self.pool.start(run, seats)
        self.order.hold(run.gang.queue, run.gang.gpus)

    def _below(self, run: Run, rank: int) -> list[tuple[float, Run]]:
        """Who may be stopped for it, of least value first."""
        mine, values = self.values[run.number], self.values
        found: list[tuple[float, Run]] = []
        left = self._to_give(rank)
        if self._ranked_of != self.standing.version:
            self._ranked_of = self.standing.version
            running = self.pool.running.values()
            self._ranked = sorted(running, key=lambda each: values[each.number])
        ranked = self._ranked
        if self.stopped:
            ranked = [each for each in ranked if self.stopped[each.number] < STOPS_MAX]
        for other in ranked:
            queue, gpus = other.gang.queue, other.gang.gpus
            if queue == run.gang.queue:
                if gittins_order.yields(values[other.number], mine):
                    found.append((values[other.number], other))
                continue
            spare = left.get(queue, 0)
            if spare > 0 and (rank == QUOTA or gpus <= spare):
                left[queue] = spare - gpus
                found.append((values[other.number], other))
        if rank == QUOTA:
            chosen = {other.number for _, other in found}
            found += [
                (values[other.number] * MOVED, other)
                for other in ranked
                if other.number not in chosen and other.gang.gpus < run.gang.gpus
            ]
        return found

    def _to_give(self, rank: int) -> dict[str, int]:
        """GPUs that each queue has above its quota, or above its fair share.

        On credit, only debtors have any.
        """
        if rank == BEYOND:
            return {}
        bounds = self.standing.fair if rank == FAIR else self.standing.quota
        found = {}
        for queue, has in self.standing.has.items():
            if rank == CREDIT and self.standing.credit.get(queue, 0.0) >= 0:
                continue
            bound = bounds[queue][GPU_MILLI]
            if bound is not None and has[GPU_MILLI] > bound:
                found[queue] = (has[GPU_MILLI] - bound) // WHOLE_GPU
        return found


def next_border(borders: Sequence[float], since_monday_s: float) -> float:
    """Seconds until the next of these times of a week."""
    at = since_monday_s % WEEK_S
    later = (border for border in borders if border > at + BORDER_S)
    return next(later, borders[0] + WEEK_S) - at
