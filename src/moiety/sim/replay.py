"""Replays a trace on an empty cluster, task by task; the policy engine decides, by one rule.

`fill` lets tasks arrive and never end, until `load_percent` of the capacity has been asked for:
that is how publications compare rules of placement. `live` lets tasks arrive and end at their
times; a task that does not fit waits, and is tried again, the oldest first, when a task ends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import Choosing, Placing, Pool
from moiety.policy.model.decisions import Reason
from moiety.policy.model.snapshot import Spot, Task
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Mask, NodeArrays, Seat
from moiety.policy.place.placement_refusals import refuse
from moiety.sim.clock import Clock
from moiety.sim.results import Bucket, Live, Result, compare
from moiety.sim.task_engine import TaskEngine
from moiety.sim.trace import Trace

LOAD_PERCENT: Final = 130
ARRIVALS_MAX: Final = 10_000_000
BEGINS, ENDS = 1, 0
"""Tasks that end make room for tasks that begin at the same moment."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """How to replay."""

    placing: Placing = Placing.DEFAULT
    choosing: Choosing = Choosing.RULE
    seed: int = 0
    load_percent: int = LOAD_PERCENT
    shuffle_nodes: bool = False
    """True: the order among equal nodes is random, by the seed; False: it is the trace's."""


def arrivals(trace: Trace, setting: ReplaySettings) -> Sequence[int]:
    """Positions in the trace's jobs: as recorded, or each job once and then again, at random.

    Sampled arrivals end when `load_percent` of the cluster's GPUs has been asked for. Raises
    InvalidValue if that never happens, because no job asks for GPUs or there are none, or only
    after more than `ARRIVALS_MAX` tasks.
    """
    if trace.arrivals is not None:
        return trace.arrivals
    whole = NodeArrays(trace.nodes).gpu_milli_total
    asked = [job.shape.total_milli for job in trace.jobs]
    if not whole or not sum(asked):
        raise InvalidValue(f"{trace.name}: there are no GPUs, or no job asks for any")
    expected = whole * setting.load_percent / 100 / sum(asked) * len(asked)
    if expected > ARRIVALS_MAX:
        raise InvalidValue(
            f"{trace.name}: {expected:.3g} tasks would have to come until {setting.load_percent} % "
            "of the GPUs have been asked for",
            "a smaller --load, or --live",
        )
    random = np.random.Generator(np.random.PCG64(setting.seed))
    found: list[int] = []
    arrived = 0
    while True:
        for job in random.permutation(len(asked)).tolist():
            if arrived * 100 >= whole * setting.load_percent:
                return found
            found.append(job)
            arrived += asked[job]


def fill(trace: Trace, setting: ReplaySettings, progress: Progress = lambda _: None) -> Result:
    """Tasks arrive one after the other and stay; `progress` gets the number of new decisions."""
    trace = ordered(trace, setting)
    engine, cluster = engine_of(trace, setting), NodeArrays(trace.nodes)
    at_node = {node.name: at for at, node in enumerate(trace.nodes)}
    shapes = [job.shape for job in trace.jobs]
    coming = arrivals(trace, setting)
    known = trace.typical.weighted
    whole = cluster.gpu_milli_total
    refused: Counter[Shape] = Counter()
    loads, allocations, fragments = [], [], {}
    arrived = placed = percent = 0
    spent_s = 0.0
    for count, job in enumerate(coming, start=1):
        shape = shapes[job]
        before_s = time.perf_counter()
        engine.came(count, shape, 0.0)
        begun = engine.begin(0.0)
        spent_s += time.perf_counter() - before_s
        if begun:
            [(_, spot)] = begun
            cluster.take(shape, Seat(at_node[spot.node], spot.gpus, spot.gpu_milli))
            placed += 1
        else:
            engine.gone(count)
            refused[shape] += 1
        arrived += shape.total_milli
        load = arrived / (whole / 1000) / 10  # in percent, by the published steps: they round
        loads.append(round(load))
        allocations.append(round(cluster.used_milli / (whole / 1000) / 10, 2))
        if loads[-1] != percent or count == len(coming):
            fragments[percent] = cluster.fragments_of(known) / whole * 100
            percent = loads[-1]
        if count % 100 == 0 or count == len(coming):
            progress(count % 100 or 100)
    buckets = _buckets(loads, allocations, fragments)
    reasons = Counter[str]()
    for shape, count in refused.items():
        reasons[_reason(cluster, shape)] += count
    return Result(
        trace=trace.name,
        placing=setting.placing,
        choosing=setting.choosing,
        seed=setting.seed,
        nodes=len(cluster),
        gpus=cluster.gpu_milli_total / 1000,
        arrived=len(coming),
        placed=placed,
        refused=dict(reasons),
        bad_lines=trace.complaints.count,
        bad_lines_told=trace.complaints.told,
        decided_s=spent_s,
        buckets=buckets,
        published=compare(buckets, trace.published.get(setting.placing)),
    )


def live(trace: Trace, setting: ReplaySettings, progress: Progress = lambda _: None) -> Result:
    """Tasks arrive and end at their times; a task that can never run is refused on arrival."""
    trace.check_timed()
    trace = ordered(trace, setting)
    run = LiveRun(trace, engine_of(trace, setting), progress)
    run.clock.run()
    return run.result(setting)


class LiveRun:
    """The state of a live replay."""

    def __init__(self, trace: Trace, engine: TaskEngine, progress: Progress) -> None:
        self.trace = trace
        self.engine = engine
        self.cluster = NodeArrays(trace.nodes)
        """What is in use on each node."""
        self._at_node = {node.name: at for at, node in enumerate(trace.nodes)}
        self._possible: dict[Shape, bool] = {}
        """Whether a node of the cluster could have a task of a shape if it were empty."""
        self.clock = Clock()
        self.waiting: dict[int, None] = {}
        self.waits_s: dict[int, float] = {}
        self.refused: Counter[str] = Counter()
        self.milli_s = 0.0
        self.since_s = min(job.submitted_s for job in trace.jobs)
        self.began_s = self.since_s
        self.last_s = max(job.submitted_s for job in trace.jobs)
        self.spent_s = 0.0
        self.progress = progress
        self.timeline: list[tuple[float, float, int]] = []
        for at, job in enumerate(trace.jobs):
            self.clock.at(job.submitted_s, self._coming(at), BEGINS)

    def open(self) -> Mask | None:
        """The nodes that tasks may be placed on; None: all."""
        return None

    def began(self, at: int, seat: Seat) -> None:
        """A job begins to run; for subclasses."""

    def ended(self, at: int, seat: Seat) -> None:
        """A job has ended; for subclasses."""

    def changed(self) -> None:
        """A job arrived or ended, and every waiting job was tried; for subclasses."""

    def _coming(self, at: int) -> Callable[[], None]:
        def come() -> None:
            self.progress(1)
            job = self.trace.jobs[at]
            self.waiting[at] = None
            self.engine.came(at, job.shape, job.submitted_s)
            self.serve_waiting()
            if at in self.waiting:
                if not self._could_ever(job.shape):
                    self.refused[_reason(self.cluster, job.shape, self.open())] += 1
                    del self.waiting[at]
                    self.engine.gone(at)
                    return
                self._note()
            self.changed()

        return come

    def _could_ever(self, shape: Shape) -> bool:
        found = self._possible.get(shape)
        if found is None:
            found = self._possible[shape] = bool(self.cluster.could_ever(shape).any())
        return found

    def serve_waiting(self) -> None:
        """Ask the engine what begins now."""
        before_s = time.perf_counter()
        begun = self.engine.begin(self.clock.now_s)
        self.spent_s += time.perf_counter() - before_s
        self.start(begun)

    def start(self, begun: Iterable[tuple[int, Spot]]) -> None:
        """Let tasks begin, each in its place."""
        for at, spot in begun:
            job = self.trace.jobs[at]
            seat = Seat(self._at_node[spot.node], spot.gpus, spot.gpu_milli)
            self._account()
            self.cluster.take(job.shape, seat)
            del self.waiting[at]
            self.waits_s[at] = self.clock.now_s - job.submitted_s
            self._note()
            self.began(at, seat)
            assert job.duration_s is not None
            self.clock.at(self.clock.now_s + job.duration_s, self._ending(at, seat), ENDS)

    def _ending(self, at: int, seat: Seat) -> Callable[[], None]:
        def end() -> None:
            self._account()
            self.cluster.give_back(self.trace.jobs[at].shape, seat)
            self.engine.gone(at)
            self.ended(at, seat)
            self.serve_waiting()
            self._note()
            self.changed()

        return end

    def _account(self) -> None:
        until_s = min(self.clock.now_s, self.last_s)
        self.milli_s += self.cluster.used_milli * max(until_s - self.since_s, 0.0)
        self.since_s = max(until_s, self.since_s)

    def _note(self) -> None:
        used = self.cluster.used_milli / 1000
        if self.timeline and self.timeline[-1][0] == self.clock.now_s:
            self.timeline.pop()
        self.timeline.append((self.clock.now_s, used, len(self.waiting)))

    def result(self, setting: ReplaySettings) -> Result:
        """The result of the replay."""
        cluster = self.cluster
        waits = np.array(list(self.waits_s.values()) or [0.0])
        times = np.array(
            [wait + (self.trace.jobs[at].duration_s or 0.0) for at, wait in self.waits_s.items()]
            or [0.0]
        )
        lasted = self.last_s - self.began_s
        whole = cluster.gpu_milli_total
        return Result(
            trace=self.trace.name,
            placing=setting.placing,
            choosing=setting.choosing,
            seed=setting.seed,
            nodes=len(cluster),
            gpus=whole / 1000,
            arrived=len(self.trace.jobs),
            placed=len(self.waits_s),
            refused=dict(self.refused),
            bad_lines=self.trace.complaints.count,
            bad_lines_told=self.trace.complaints.told,
            decided_s=self.spent_s,
            live=Live(
                lasted_s=self.clock.now_s - self.began_s,
                allocation_percent=self.milli_s / (lasted * whole) * 100 if lasted * whole else 0,
                wait_mean_s=float(waits.mean()),
                wait_p95_s=float(np.percentile(waits, 95)),
                completion_mean_s=float(times.mean()),
                completion_p99_s=float(np.percentile(times, 99)),
                queue_longest=max((queued for *_, queued in self.timeline), default=0),
                timeline=self.timeline,
            ),
        )


def _reason(cluster: NodeArrays, shape: Shape, mask: Mask | None = None) -> str:
    """What holds for most nodes that do not take a task."""
    if mask is None and cluster.has_room(shape).any():
        return Reason.NOT_YET.value
    return refuse(cluster, shape, Task("", "", 0), mask).reason.value


def ordered(trace: Trace, setting: ReplaySettings) -> Trace:
    """The same, with names of nodes that have the order among equals."""
    order: Sequence[int] | None = trace.node_order
    if setting.shuffle_nodes:
        random = np.random.Generator(np.random.PCG64([setting.seed, len(trace.nodes)]))
        order = random.permutation(len(trace.nodes)).tolist()
    if order is None:
        return trace
    nodes = (
        replace(node, name=f"{place:07}") for node, place in zip(trace.nodes, order, strict=True)
    )
    return replace(trace, nodes=tuple(nodes))


def engine_of(trace: Trace, setting: ReplaySettings) -> TaskEngine:
    """An engine for the trace's nodes, all empty and in one pool with this rule."""
    pool = Pool(placing=setting.placing, choosing=setting.choosing)
    nodes = [replace(node, pool=pool.name) for node in trace.nodes]
    return TaskEngine(nodes, (pool,), trace.typical, setting.seed)


def _buckets(
    loads: Sequence[int], allocations: Sequence[float], fragments: dict[int, float]
) -> list[Bucket]:
    """As published: the mean over each whole percent, or over its neighbours if it is empty."""
    at = np.array(loads)
    values = np.array(allocations)
    found = []
    for percent in range(int(at.max(initial=0)) + 1):
        inside = values[at == percent]
        if not len(inside):
            inside = values[(at >= percent - 1) & (at <= percent + 1)]
        if len(inside):
            useless = fragments.get(percent)
            mean = round(float(inside.mean()), 2)
            found.append(Bucket(percent, mean, None if useless is None else round(useless, 2)))
    return found
