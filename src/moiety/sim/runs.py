"""Gangs in virtual time: each arrives, runs for as long as it needs, and ends; an order decides.

Nothing happens between events. An event is a gang that arrives or ends, a change of the cluster,
or a moment at which the order wants to look again. At each moment with events the order decides
once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from moiety.model.errors import InternalError
from moiety.policy.model.queues import WEEK_S
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.seats import Nodes, Seats

SAME_S = 1e-6
"""Two moments that differ by less count as one."""
QUIET_S: Final = WEEK_S + 86400.0
"""If nothing happens for so long, and nothing but looks is due, what waits will never begin."""
ENDS, CHANGES, COMES, LOOKS = range(4)

Progress = Callable[[int], None]


@dataclass(slots=True, eq=False)
class Run:
    """The progress of a gang: how much work it has done, and where it runs."""

    gang: GangJob
    number: int
    """Its position in the order of submission."""
    left_s: float
    """Work that was left when it last began or stopped."""
    attained_s: float = 0.0
    """Work that it had done when it last began or stopped."""
    since_s: float = 0.0
    """When its work goes on, after a restart."""
    seats: Seats = ()
    is_running: bool = False
    is_over: bool = False
    began_s: float | None = None
    """When it first began."""
    ended_s: float = 0.0
    preemptions: int = 0
    failures: int = 0
    suspensions: int = 0
    lost_s: float = 0.0
    """Seconds of work that it did and had to do again."""
    epoch: int = 0

    @property
    def received_s(self) -> float:
        """How long it has had its GPUs, when it last began or stopped: also for work that was lost.

        Else a gang that is killed would be worth as much as a new one, and two that kill each other
        would never get on.
        """
        return self.attained_s + self.lost_s

    def attained(self, now_s: float) -> float:
        """Seconds of work by now."""
        return self.attained_s + (max(0.0, now_s - self.since_s) if self.is_running else 0.0)

    def left(self, now_s: float) -> float:
        """Seconds of work that are left; no scheduler of the real world knows."""
        return self.left_s - (max(0.0, now_s - self.since_s) if self.is_running else 0.0)


@dataclass(frozen=True, slots=True)
class RestartCost:
    """The cost of a stop and a restart."""

    restart_s: float = 0.0
    """Seconds without work when a stopped gang goes on."""
    checkpoint_s: float = 1800.0
    """How often work is kept for the case that a node fails."""


class GpuPool:
    """The nodes and the gangs that an order sees and changes."""

    def __init__(self, nodes: Nodes, cost: RestartCost) -> None:
        self.nodes = nodes
        self.cost = cost
        self.now_s = 0.0
        self.waiting: dict[int, Run] = {}
        """By number; an order may sort them as it likes."""
        self.running: dict[int, Run] = {}
        self.used = 0
        self.held: Counter[str] = Counter()
        """GPUs that each queue has"""
        self.asked: Counter[str] = Counter()
        """GPUs that each queue waits for"""
        self.kinds: Counter[tuple[str, int]] = Counter()
        """How many gangs wait, by queue and GPUs"""
        self.has_news = False
        """True if a gang arrived or ended or the cluster changed at this moment."""
        self._begun: list[Run] = []
        self.newly: list[Run] = []
        """Gangs that have begun since the order was last asked to decide."""

    @property
    def gpus(self) -> int:
        """GPUs of all nodes that are up."""
        return self.nodes.gpus

    def wait(self, run: Run) -> None:
        """The gang waits."""
        self.waiting[run.number] = run
        self.asked[run.gang.queue] += run.gang.gpus
        self.kinds[run.gang.queue, run.gang.gpus] += 1

    def start(self, run: Run, seats: Seats) -> None:
        """The gang begins or goes on."""
        del self.waiting[run.number]
        self.nodes.take(seats)
        self._begin(run, seats)

    def _begin(self, run: Run, seats: Seats) -> None:
        again = run.began_s is not None
        run.seats, run.is_running = seats, True
        run.since_s = self.now_s + (self.cost.restart_s if again else 0.0)
        run.began_s = run.began_s if again else self.now_s
        run.epoch += 1
        self.running[run.number] = run
        self.used += run.gang.gpus
        self.held[run.gang.queue] += run.gang.gpus
        self.asked[run.gang.queue] -= run.gang.gpus
        self.kinds[run.gang.queue, run.gang.gpus] -= 1
        self._begun.append(run)
        self.newly.append(run)

    def host_free(self) -> Mapping[int, int]:
        """Bytes of host memory for suspended gangs, by node; empty: none can be suspended."""
        return {}

    def fallen(self, node: int) -> None:
        """A node has failed, with what its memory held."""

    def gpu_bytes(self, run: Run) -> int:
        """Bytes that a suspension of the gang would have to carry from each GPU; 0: it cannot."""
        return 0

    def stop(self, run: Run, *, suspends: bool = False) -> None:
        """The gang is preempted: its work is kept, its GPUs are free."""
        self.nodes.give_back(run.seats)
        self._end(run)
        run.preemptions += 1
        self.wait(run)

    def fail(self, run: Run) -> None:
        """The gang's node has failed: the work since the last checkpoint is lost."""
        done = run.attained(self.now_s)
        self.nodes.give_back(run.seats)
        self._end(run)
        self._lose(run, done)
        run.failures += 1
        self.wait(run)

    def _lose(self, run: Run, done: float) -> None:
        """What a gang has done since its last checkpoint is lost."""
        kept = done - done % self.cost.checkpoint_s if self.cost.checkpoint_s else 0.0
        run.left_s += done - kept
        run.lost_s += done - kept
        run.attained_s = kept

    def _end(self, run: Run) -> None:
        worked = max(0.0, self.now_s - run.since_s)
        run.left_s -= worked
        run.attained_s += worked
        run.is_running, run.seats = False, ()
        run.epoch += 1
        del self.running[run.number]
        self.used -= run.gang.gpus
        self.held[run.gang.queue] -= run.gang.gpus

    def over(self, run: Run) -> None:
        """The gang has done its work."""
        self.nodes.give_back(run.seats)
        self._end(run)
        run.is_over, run.ended_s = True, self.now_s

    def reseat(self, plan: Iterable[tuple[Run, Seats]], free: list[int]) -> None:
        """Run exactly these gangs in these seats; moving costs nothing, as baselines assume."""
        keep = dict.fromkeys(run.number for run, _ in plan)
        for run in [run for run in self.running.values() if run.number not in keep]:
            self.stop(run)
        self.nodes.free = free
        for run, seats in plan:
            if run.is_running:
                run.seats = seats
            else:
                del self.waiting[run.number]
                self._begin(run, seats)

    def begun(self) -> list[Run]:
        """The gangs that have begun since the last call."""
        found, self._begun = self._begun, []
        return found


class Order(Protocol):
    """Decides which gangs run: starts and stops gangs of a pool.

    It does not look at the work that a gang has left, unless it is documented to know that.
    """

    name: str

    def came(self, run: Run, pool: GpuPool) -> None:
        """A gang waits now."""

    def ended(self, run: Run, pool: GpuPool) -> None:
        """A gang has done its work."""

    def decide(self, pool: GpuPool) -> float | None:
        """Start and stop gangs; returns when to look again if nothing happens before."""


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change of the cluster."""

    at_s: float
    what: str
    """`down` (a failure), `drain` (announced: work is kept), `up` (the end of either), `add`"""
    node: int = -1
    gpus: int = 0


@dataclass(slots=True)
class UsageTimeline:
    """Seconds, GPUs in use, GPUs of the cluster, GPUs wanted and waiting gangs, at each change."""

    at_s: list[float] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    there: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


class QueueMoment(Protocol):
    """What queues have and wait for at a moment."""

    @property
    def now_s(self) -> float:
        """The time."""

    @property
    def gpus(self) -> int:
        """GPUs of all nodes that are up."""

    @property
    def held(self) -> Mapping[str, float]:
        """GPUs that each queue has; a queue that once had any stays in it."""

    @property
    def asked(self) -> Mapping[str, float]:
        """GPUs that each queue waits for."""

    @property
    def kinds(self) -> Mapping[tuple[str, Any], int]:
        """How many gangs wait, by queue and GPUs."""

    @property
    def waiting(self) -> Sized:
        """The gangs that wait."""


Watch = Callable[[GpuPool], None]


def replay(
    trace: GangTrace,
    order: Order,
    cost: RestartCost = RestartCost(),
    changes: Iterable[ClusterChange] = (),
    progress: Progress = lambda _: None,
    watch: Watch | None = None,
    pool: GpuPool | None = None,
) -> tuple[list[Run], UsageTimeline]:
    """All gangs with when they began and ended, in the order of submission.

    `watch` is called after each decision. A `pool` says what stops cost.

    Raises InternalError if an order never starts a gang.
    """
    pool = pool or GpuPool(Nodes(trace.nodes), cost)
    coming = sorted(trace.gangs, key=lambda gang: gang.submitted_s)
    runs = [Run(gang, number, gang.duration_s) for number, gang in enumerate(coming)]
    first = coming[0].submitted_s if coming else 0.0
    events: list[tuple[float, int, int, int, Run | ClusterChange | None]] = [
        (run.gang.submitted_s, COMES, run.number, 0, run) for run in runs
    ]
    changing = sorted(changes, key=lambda each: each.at_s)
    events += [(each.at_s + first, CHANGES, at, 0, each) for at, each in enumerate(changing)]
    final = gone_for_good(changing)
    heapq.heapify(events)
    timeline = UsageTimeline()
    left, wanted, look, quiet_s = len(runs), 0, None, first
    while left:
        is_quiet = pool.now_s - quiet_s > QUIET_S and not pool.running
        if not events or (is_quiet and all(kind in (ENDS, LOOKS) for _, kind, *_ in events)):
            raise InternalError(f"{left} gangs wait, and {order.name} starts none of them")
        pool.now_s = now = events[0][0]
        is_stale, pool.has_news = True, False
        while events and events[0][0] <= now + SAME_S:
            _, kind, number, epoch, what = heapq.heappop(events)
            if isinstance(what, ClusterChange):
                _change(pool, what, for_good=number in final)
            elif what is None:
                if epoch == look:
                    is_stale = False
                continue
            elif kind == COMES:
                pool.wait(what)
                wanted += what.gang.gpus
                order.came(what, pool)
            elif what.epoch != epoch or what.is_over:
                continue
            else:
                pool.over(what)
                wanted -= what.gang.gpus
                left -= 1
                progress(1)
                order.ended(what, pool)
            is_stale, pool.has_news = False, True
        if is_stale:
            continue
        again = order.decide(pool)
        pool.newly.clear()
        begun = pool.begun()
        if begun or pool.has_news:
            quiet_s = now
        for run in begun:
            if run.is_running:
                ends = run.since_s + run.left_s
                heapq.heappush(events, (ends, ENDS, run.number, run.epoch, run))
        if again is not None and left:
            look = (look or 0) + 1
            heapq.heappush(events, (max(again, now + 2 * SAME_S), LOOKS, look, look, None))
        else:
            look = None if look is None else look + 1
        if watch:
            watch(pool)
        _note(timeline, pool, wanted)
    return runs, timeline


def gone_for_good(changes: Iterable[ClusterChange]) -> set[int]:
    """Which of these changes, in the order of time, take a node away that never is up again."""
    outages: Counter[int] = Counter()
    last: dict[int, int] = {}
    for at, change in enumerate(changes):
        if change.what == "add":
            continue
        outages[change.node] += -1 if change.what == "up" else 1
        if not outages[change.node]:
            del last[change.node]
        else:
            last.setdefault(change.node, at)
    return set(last.values())


def _change(pool: GpuPool, change: ClusterChange, *, for_good: bool) -> None:
    nodes = pool.nodes
    if change.what in ("down", "drain") and nodes.up[change.node]:
        for run in list(pool.running.values()):
            if any(at == change.node for at, _ in run.seats):
                if change.what == "drain":
                    pool.stop(run, suspends=True)
                else:
                    pool.fail(run)
        if change.what == "down":
            pool.fallen(change.node)
    change_nodes(nodes, change, for_good=for_good)


def change_nodes(nodes: Nodes, change: ClusterChange, *, for_good: bool = False) -> None:
    """Change nodes on which nothing runs that the change would stop."""
    if change.what == "add":
        nodes.add(change.gpus)
    elif change.what == "up":
        nodes.back(change.node)
    else:
        nodes.down(change.node, for_good=for_good)


def _note(timeline: UsageTimeline, pool: GpuPool, wanted: int) -> None:
    now = (pool.used, pool.nodes.gpus, wanted, len(pool.waiting))
    if timeline.at_s:
        before = (
            timeline.used[-1],
            timeline.there[-1],
            timeline.wanted[-1],
            timeline.waiting[-1],
        )
        if before == now:
            return
    timeline.at_s.append(pool.now_s)
    timeline.used.append(now[0])
    timeline.there.append(now[1])
    timeline.wanted.append(now[2])
    timeline.waiting.append(now[3])
