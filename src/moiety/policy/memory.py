"""What the engine has learned: how long work runs, and from that the worth of what waits and runs.

A decision reads a memory and never changes it; the world tells it what happens (`learn`), in the
order of time. A memory is bounded: it forgets the oldest work that has ended. `dump` and `load`
turn it into plain values and back.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from moiety.policy.estimate.runtime_estimator import RuntimeEstimator, next_edge, spans_of
from moiety.policy.estimate.runtime_history import size_of
from moiety.policy.estimate.start_errors import StartErrors
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Queue
from moiety.policy.model.workloads import Workload
from moiety.policy.queue import gittins_order
from moiety.policy.queue.deficit import QueueCredit
from moiety.policy.queue.queue_usage import TURN_S
from moiety.policy.queue.worth_table import Worth, WorthTable
from moiety.policy.remembered_work import RememberedWork

WORK_MAX: Final = 50_000
"""The most work that is remembered; of more, the newest half stays."""
LOOK_S: Final = 600.0
"""The longest time between two decisions while work waits."""
NEAR_S: Final = 1e-3
"""Times that differ by less are equal: sums of seconds are not exact."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A workload waits now, for the first time."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class Began:
    """A workload runs."""

    workload: str
    at_s: float
    """When its work goes on, which can lie ahead after a restart."""
    attained_s: float = 0.0
    """Seconds of work that it has done before."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A workload waits again."""

    workload: str
    attained_s: float
    """Seconds of work that are kept."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A workload is over."""

    workload: str
    attained_s: float | None
    """Seconds of work that it did in all; None: it never ran, and nothing is learned from it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Time has passed."""

    now_s: float


@dataclass(frozen=True, slots=True)
class Divided:
    """The GPUs of the cluster, and the queues among which they are divided, from now on."""

    gpus: int
    queues: tuple[Queue, ...]
    monday_s: float = 0.0
    """A Monday's midnight on the clock of all events."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """It was said when a waiting workload will begin; its begin tells how true that was."""

    workload: str
    at_s: float
    """When it was said."""
    foreseen_s: float
    """Seconds until the begin as foreseen, before past errors corrected it."""


Event = Submitted | Began | Stopped | Ended | Passed | Divided | Foreseen


class PolicyMemory:
    """What is known of past and present work."""

    def __init__(self) -> None:
        self._estimator = RuntimeEstimator()
        self._by_row: list[RememberedWork] = []
        self._active: dict[str, RememberedWork] = {}
        self._table = WorthTable()
        """The worth of each active workload."""
        self._stale: set[int] = set()
        """The rows of work whose worth has to be found again, if it is active."""
        self._edges: list[tuple[float, str, int]] = []
        """A heap of when running work enters its next span of run time: time, name, epoch."""
        self._now_s = -math.inf
        """When time passed last."""
        self._yielded: set[str] = set()
        """The workloads that stopped at that moment."""
        self._waits = 0
        """How many workloads wait."""
        self._has: Counter[str] = Counter()
        """The thousandths of GPUs that each leaf queue has."""
        self._gpus = 0
        self._credit: dict[str, float] = {}
        """What `load` found; it counts from when the queues are told."""
        self._account: QueueCredit | None = None
        self.starts = StartErrors()
        """How true it was what was said of begins."""

    @property
    def credit(self) -> Mapping[str, float] | None:
        """GPU-seconds by queue, as in a snapshot; None: the queues were never told."""
        return None if self._account is None else self._account.of

    def worth(self, now_s: float) -> Worth:
        """The worth of each active workload by its name: expected ends for each GPU-second.

        It is of use until the memory learns of something else.
        """
        self._refresh(now_s)
        return self._table.at(now_s)

    def left_s(self, workload: str, now_s: float, quantile: float = 0.5) -> float:
        """Seconds of work after which it has ended with the likelihood `quantile`."""
        work = self._active[workload]
        return self._estimator.left_s(work.row, work.attained(now_s), quantile)

    def since_s(self, workload: str) -> float | None:
        """When a workload's work went on; None: it does not run, or is not known here."""
        work = self._active.get(workload)
        return None if work is None else work.since_s

    def attained_s(self, workload: str, now_s: float) -> float:
        """Seconds of work that a workload has done; 0: it is not known here."""
        work = self._active.get(workload)
        return 0.0 if work is None else work.attained(now_s)

    def yielded(self, now_s: float) -> Container[str]:
        """The workloads that stopped at this very moment."""
        return self._yielded if now_s <= self._now_s else ()

    def knows(self, workload: str) -> bool:
        """Whether a workload was submitted, and is not over."""
        return workload in self._active

    def fork(self) -> PolicyMemory:
        """A memory that knows the same, for decisions that are tried ahead of time."""
        fork = PolicyMemory()
        fork._estimator = self._estimator.fork()
        fork._active = {work.name: copy(work) for work in self._active.values()}
        fork._by_row = [w if w.is_over else fork._active[w.name] for w in self._by_row]
        fork._table, fork._stale = self._table.copy(), set(self._stale)
        fork._edges = list(self._edges)
        fork._yielded = set(self._yielded)
        fork._now_s, fork._waits, fork._gpus = self._now_s, self._waits, self._gpus
        fork._has = self._has.copy()
        if self._account is not None:
            fork._account = copy(self._account)
            fork._account.of = dict(self._account.of)
        return fork

    def look_s(self, now_s: float) -> float:
        """When the order of work that waits can have changed, if nothing happens before."""
        if self._account is not None:
            border_s = self._account.next_border_s(now_s)
            return min(now_s + LOOK_S, math.inf if border_s is None else border_s)
        while self._edges:
            at_s, name, epoch = self._edges[0]
            work = self._active.get(name)
            if work is not None and work.epoch == epoch:
                return min(max(at_s, now_s), now_s + LOOK_S)
            heapq.heappop(self._edges)
        return now_s + LOOK_S

    def is_moved(self, now_s: float, since_s: float = -math.inf) -> bool:
        """Whether a decision can change anything if only time has passed since one at `since_s`.

        It cannot if nothing that runs yields to anything that waits in its queue, by worth alone.
        Where queues are known, rights between them change too: with credit, which gives turns of an
        hour, and with quotas of times of day.
        """
        if self._account is not None:
            border_s = self._account.next_border_s(since_s)
            if now_s >= min(since_s + TURN_S, border_s or math.inf) - NEAR_S:
                return True
        self._refresh(now_s)
        return self._table.any_yields(now_s)

    def dump(self) -> dict[str, Any]:
        """All of it, as plain values."""
        work = [
            (w.name, w.likeness, w.submitted_s, w.attained_s, w.since_s, w.is_over)
            for w in self._by_row
            if not w.is_unknown
        ]
        now_s = None if self._now_s == -math.inf else self._now_s
        credit = dict(self.credit or self._credit)
        return {"work": work, "credit": credit, "now_s": now_s, "starts": self.starts.dump()}

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> PolicyMemory:
        """A memory that decides as the one that was dumped, once it is told the queues."""
        memory = cls()
        memory._credit = dict(dumped["credit"])
        memory._now_s = -math.inf if dumped["now_s"] is None else dumped["now_s"]
        memory.starts = StartErrors.load(dumped.get("starts", {}))
        memory._remember(
            RememberedWork(
                name, (str(like[0]), str(like[1]), *like[2:]), at_s, -1, attained, since, is_over
            )
            for name, like, at_s, attained, since, is_over in dumped["work"]
        )
        return memory

    def _refresh(self, now_s: float) -> None:
        names = [work.name for row in self._stale if not (work := self._by_row[row]).is_over]
        self._stale.clear()
        if names:
            rows, attained_s, gpus, is_running = self._table.facts(names, now_s)
            chances = self._estimator.chances(rows)
            worth = gittins_order.worth(chances, spans_of(attained_s), gpus, is_running)
            self._table.worth(names, worth)

    def _submitted(self, workload: Workload) -> None:
        over = len(self._by_row) - len(self._active)
        if len(self._by_row) >= WORK_MAX and over > WORK_MAX // 2 + WORK_MAX // 8:
            self._forget()
        likeness = (workload.queue, workload.user, *size_of(workload))
        work = RememberedWork(workload.name, likeness, workload.submitted_s)
        self._add(work)

    def _add(self, work: RememberedWork) -> None:
        work.row = self._estimator.came(work.likeness, work.submitted_s)
        self._by_row.append(work)
        if not work.is_over:
            self._active[work.name] = work
            self._table.came(work.name, work.likeness[0], work.submitted_s, work.row, work.gpus)
            self._table.has(work.name, work.attained_s, work.since_s)
            self._stale.add(work.row)
            if work.since_s is None:
                self._waits += 1
            else:
                self._has[work.likeness[0]] += work.likeness[2]

    def _began(self, name: str, at_s: float, attained_s: float) -> None:
        work = self._active[name]
        if work.since_s is None:
            self._waits -= 1
            self._has[work.likeness[0]] += work.likeness[2]
        work.since_s, work.attained_s = at_s, attained_s
        self._table.has(name, attained_s, at_s)
        work.epoch += 1
        self.starts.began(name, at_s)
        self._stale.add(work.row)
        self._watch(work, attained_s)

    def _watch(self, work: RememberedWork, done_s: float) -> None:
        edge_s = next_edge(done_s)
        if work.since_s is not None and edge_s < math.inf:
            at_s = work.since_s + edge_s - work.attained_s
            heapq.heappush(self._edges, (at_s, work.name, work.epoch))

    def _stopped(self, name: str, attained_s: float) -> None:
        work = self._active[name]
        if work.since_s is not None:
            self._waits += 1
            self._has[work.likeness[0]] -= work.likeness[2]
        work.since_s, work.attained_s = None, attained_s
        self._yielded.add(name)
        self._table.has(name, attained_s, None)
        work.epoch += 1
        self._stale.add(work.row)

    def _ended(self, name: str, attained_s: float | None) -> None:
        work = self._active.pop(name)
        if work.since_s is None:
            self._waits -= 1
        else:
            self._has[work.likeness[0]] -= work.likeness[2]
        work.since_s, work.is_over, work.is_unknown = None, True, attained_s is None
        self.starts.forget(name)
        self._table.over(name)
        if attained_s is None:
            return
        work.attained_s = attained_s
        self._estimator.ended(work.row, attained_s)
        self._like_changed(work)

    def _passed(self, now_s: float) -> None:
        """Queues gain and lose credit; running work that has entered another span is worth more."""
        if now_s > self._now_s:
            self._yielded.clear()
        if self._account is not None and now_s > self._now_s > -math.inf:
            had = {queue: milli / WHOLE_GPU for queue, milli in self._has.items() if milli}
            self._account.passed(self._now_s, now_s, self._gpus, had, is_waited=self._waits > 0)
        self._now_s = now_s
        due: list[RememberedWork] = []
        while self._edges and self._edges[0][0] <= now_s + NEAR_S:
            _, name, epoch = heapq.heappop(self._edges)
            work = self._active.get(name)
            if work is not None and work.epoch == epoch:
                due.append(work)
        for work in due:  # by its own sum one may come to its edge a moment later: once more then
            done_s = work.attained(now_s)
            if self._estimator.ran(work.row, done_s):
                self._like_changed(work)
            self._stale.add(work.row)
            self._watch(work, done_s)

    def _divided(self, event: Divided) -> None:
        credit = self._credit if self._account is None else self._account.of
        self._gpus = event.gpus
        self._account = QueueCredit(event.queues, event.monday_s)
        self._account.of = dict(credit)

    def _like_changed(self, work: RememberedWork) -> None:
        self._stale.update(self._estimator.near(work.row).tolist())

    def _forget(self) -> None:
        """Forget the older half of what has ended."""
        over = [work for work in self._by_row if work.is_over and not work.is_unknown]
        gone = {work.row for work in over[: max(len(over) - WORK_MAX // 2, 0)]}
        gone |= {work.row for work in self._by_row if work.is_unknown}
        kept = [work for work in self._by_row if work.row not in gone]
        fresh = PolicyMemory()
        fresh._account, fresh._gpus, fresh._now_s = self._account, self._gpus, self._now_s
        fresh.starts = self.starts
        fresh._remember(kept)
        vars(self).update(vars(fresh))

    def _remember(self, work: Iterable[RememberedWork]) -> None:
        """Add work that may have run and ended before, in the order in which it came."""
        for each in work:
            self._add(each)
        for each in self._by_row:
            if each.is_over:
                self._estimator.ended(each.row, each.attained_s)
            elif each.since_s is not None or each.attained_s:
                self._estimator.ran(each.row, each.attained_s)
                self._watch(each, each.attained_s)


def learn(memory: PolicyMemory, event: Event) -> None:
    """Note what has happened. Raises KeyError for a workload that was not submitted, or is over."""
    match event:
        case Submitted(workload):
            memory._submitted(workload)
        case Began(name, at_s, attained_s):
            memory._began(name, at_s, attained_s)
        case Stopped(name, attained_s):
            memory._stopped(name, attained_s)
        case Ended(name, attained_s):
            memory._ended(name, attained_s)
        case Passed(now_s):
            memory._passed(now_s)
        case Divided():
            memory._divided(event)
        case Foreseen(name, at_s, foreseen_s):
            memory.starts.told(name, at_s, foreseen_s)
