"""Gangs in queues: quota first, then fair share, and within a queue by worth.

The policy package decides what a queue may have and should have (`model.queues`,
`queue.queue_usage`), and which gang yields: a queue within its quota takes from a queue above its
quota, a queue within its fair share from a queue above its fair share, and a queue with credit for
a turn (`queue.deficit`) from a queue in debt. Within a queue, a gang of more worth takes from a
gang of less worth. A gang within quota also gets a place if smaller gangs have to move for it;
these gangs then get places by the same rules. If a gang within quota still waits, all gangs within
quota get new seats (`repack`), which ends the round.
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
"""Progress of running gangs changes the order at most once in this time."""
BORDER_S: Final = 1e-3
"""A border that is nearer than this has been reached: sums of seconds are not exact."""
MOVED: Final = 1e6
"""Factor on the worth of a gang that would only be moved: it is the last to make room."""
STOPS_MAX: Final = 2
"""The most stops of one gang in a round."""
QUOTA, FAIR, CREDIT, BEYOND = range(4)
Turn = tuple[int, int, float]
"""A queue's rank with the gang that it asks for next, its priority, and its ratio then."""


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
        """The number of GPUs that `_parts` divides."""
        self._looked_s: float | None = None
        """When it last decided."""
        self._waited = False
        """Whether a gang waited after the last decision."""

    def came(self, run: Run, pool: GpuPool) -> None:
        """The gang waits in its queue; raises InvalidValue if it never fits the queue's limit."""
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
        """When to look again: at most once in `LOOK_S`, and when another quota begins to hold."""
        edge = super().looks(pool)
        found = None if edge is None else max(edge, pool.now_s + LOOK_S)
        if not self._borders or not pool.waiting:
            return found
        border = pool.now_s + next_border(self._borders, pool.now_s - self._monday_s)
        return border if found is None else min(found, border)

    def decide(self, pool: GpuPool) -> float | None:
        """Serve queue by queue, the queue furthest below what it should have first."""
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
        """Give credit for the time since the last decision, in which no gang began or ended."""
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
        """Add the gangs that have begun and ended to the usage of their queues."""
        for queue, gpus in pool.held.items():
            change = gpus - self._counted[queue]
            if change:
                self.hold(queue, change)

    def hold(self, queue: str, gpus: int) -> None:
        """A queue has `gpus` more GPUs; fewer if negative."""
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
        """How often each gang was stopped in this round: two gangs could stop each other for ever.
        """
        self._turns: list[tuple[Turn, str]] = []
        """A heap of the queues with a gang left to try; valid until a gang starts or stops."""
        self._keys: dict[tuple[str, int], Turn] = {}
        self._in_vain: set[tuple[str, int]] = set()
        """Queues and sizes for which the last gang had no room: later gangs have none either."""
        self._ranked: list[Run] = []
        """Running gangs, of least value first."""
        self._ranked_of = self._turns_of = -1

    def serve(self) -> None:
        """Try every waiting gang, in the order of turns."""
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
        """Whether a gang waits that would stay within quota."""
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
        """New seats for all gangs within quota: the last act of a round, so nothing undoes it."""
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
        """The gangs that fit within quota together, running gangs first; and other running gangs.

        Each other waiting gang would break a quota beside the entitled gangs.
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
        """The gangs that may be stopped for this one, of least value first."""
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

        For a gang on credit, only queues in debt give up GPUs.
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
