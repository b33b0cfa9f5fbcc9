"""The results of a replay of gangs: times, waiting, use, and fairness."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Queue
from moiety.sim.baselines import KNOWS, baseline
from moiety.sim.baselines import NAMES as BASELINES
from moiety.sim.by_queue import QuotaWatch, jain, satisfied
from moiety.sim.changes import most_there
from moiety.sim.engine import Engine
from moiety.sim.fair_use import FairWatch
from moiety.sim.gangs import GangTrace
from moiety.sim.job_records import JobRecord, SeatNotes
from moiety.sim.job_run import WorldTimeline
from moiety.sim.queue_file import within_queues
from moiety.sim.runs import (
    ClusterChange,
    GpuPool,
    Order,
    Progress,
    RestartCost,
    Run,
    UsageTimeline,
    replay,
)
from moiety.sim.seats import Nodes
from moiety.sim.starts import StartQuestions, StartScore, StartWatch
from moiety.sim.suspension import Stops, SuspensionCost, pool_of

ORDERS: Final = ("default", *BASELINES)
POINTS: Final = 400
"""The most points of a timeline that are kept."""


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """The results of one queue."""

    name: str
    quota_gpus: float | None
    jobs: int
    satisfied: float
    """The part of the GPUs that it asked for, over time, that it had."""
    completion_mean_s: float


@dataclass(frozen=True, slots=True)
class GangOutcome:
    """The results of one replay. Times are in seconds; percentiles are of jobs."""

    trace: str
    order: str
    knows_durations: bool
    nodes: int
    gpus: int
    jobs: int
    lasted_s: float
    allocation_percent: float
    """Allocated part of the cluster's GPUs, from the first submission to the last."""
    completion_mean_s: float
    completion_p50_s: float
    completion_p95_s: float
    completion_p99_s: float
    wait_mean_s: float
    """Mean of the completion time without the work itself: waiting, and restarts."""
    wait_p95_s: float
    first_start_p95_s: float
    preemptions_per_job: float
    failures: int
    """How often the failure of a node stopped a job."""
    queue_longest: int
    decided_s: float
    """Real time of the replay."""
    bad_lines: int = 0
    bad_lines_told: Sequence[str] = ()
    queues: Sequence[QueueOutcome] = ()
    jain: float | None = None
    """Jain's index of the parts that queues had of the GPUs that they asked for."""
    jain_of_due: float | None = None
    """Jain's index of the parts that queues had of their fair shares, at each moment."""
    jain_of_due_over_run: float | None = None
    """The same over the run, where more than the fair share makes good for less before."""
    quota_broken: int | None = None
    """Moments after which a queue waited for GPUs within its quota."""
    stops: Stops = Stops.KEEP
    """What happened to jobs that were stopped."""
    suspensions_per_job: float | None = None
    """None: not counted, as in histories of clusters."""
    lost_gpu_hours: float | None = None
    """Work that was done and lost, because a job was killed or its node failed; None likewise."""
    starts: StartScore | None = None
    """How true it was what was said of begins, if it was asked."""
    completion_s: Sequence[float] = ()
    """The longest completion time of 0, 1 ... 100 percent of the jobs."""
    timeline: Sequence[tuple[float, float, int, float, int]] = field(default=())
    """Hours, GPUs in use, GPUs of the cluster, GPUs wanted (in use or waited for), waiting jobs."""


def order_of(name: str, queues: Sequence[Queue] | None = None, monday_s: float = 0.0) -> Order:
    """A new order by its name; with queues, only the default order heeds them."""
    if name == "default":
        return Engine(queues or (), monday_s)
    if queues:
        raise InvalidValue(f"the order {name} knows nothing of queues", "--order default")
    return baseline(name)


def run_gangs(
    trace: GangTrace,
    name: str,
    cost: RestartCost,
    changes: Sequence[ClusterChange] = (),
    queues: Sequence[Queue] | None = None,
    progress: Progress = lambda _: None,
    records: list[JobRecord] | None = None,
    *,
    questions: StartQuestions | None = None,
    stops: Stops = Stops.KEEP,
    suspension: SuspensionCost | None = None,
) -> GangOutcome:
    """Replay, and count. What became of each job is added to `records`.

    With `questions`, ask of some jobs when they will begin.

    Raises InvalidValue if a job could never run after the changes, and TraceInvalid if its queue
    could never let it run (unless the trace is lenient: then it is left out).
    """
    if queues:
        trace = within_queues(trace, queues)
    most_there(trace, changes)
    quotas = QuotaWatch(queues, trace.monday_s) if queues else None
    shares = FairWatch(queues, trace.monday_s) if queues else None

    decider = order_of(name, queues, trace.monday_s)
    starts = StartWatch(trace, decider, questions) if questions else None

    def watch(pool: GpuPool) -> None:
        if quotas and shares:
            quotas(pool)
            shares(pool)
        if starts:
            starts(pool)

    began = time.perf_counter()
    order = SeatNotes(decider)
    is_watched = bool(queues or starts)
    runs, timeline = replay(
        trace,
        order,
        cost,
        changes,
        progress,
        watch if is_watched else None,
        pool_of(Nodes(trace.nodes), cost, stops, suspension),
    )
    took_s = time.perf_counter() - began
    if records is not None:
        records += order.records(runs)
    broken = quotas.broken if quotas else None
    found = count(trace, name, runs, timeline, took_s, queues, broken, shares)
    return replace(found, stops=stops, starts=starts.score(runs) if starts else None)


def count(
    trace: GangTrace,
    name: str,
    runs: Sequence[Run],
    timeline: UsageTimeline,
    took_s: float,
    queues: Sequence[Queue] | None = None,
    broken: int | None = None,
    shares: FairWatch | None = None,
) -> GangOutcome:
    """All figures of a replay."""
    completion = sorted(run.ended_s - run.gang.submitted_s for run in runs)
    wait = sorted(run.ended_s - run.gang.submitted_s - run.gang.duration_s for run in runs)
    starts = sorted((run.began_s or 0.0) - run.gang.submitted_s for run in runs)
    first = min(run.gang.submitted_s for run in runs)
    lasted = max(run.ended_s for run in runs) - first
    parts = satisfied(runs)
    return GangOutcome(
        trace=trace.name,
        order=name,
        knows_durations=name in KNOWS,
        nodes=len(trace.nodes),
        gpus=trace.gpus,
        jobs=len(runs),
        lasted_s=lasted,
        allocation_percent=_allocation(trace, timeline),
        completion_mean_s=fmean(completion),
        completion_p50_s=at(completion, 0.5),
        completion_p95_s=at(completion, 0.95),
        completion_p99_s=at(completion, 0.99),
        wait_mean_s=max(0.0, fmean(wait)),
        wait_p95_s=max(0.0, at(wait, 0.95)),
        first_start_p95_s=at(starts, 0.95),
        preemptions_per_job=fmean(run.preemptions for run in runs),
        failures=sum(run.failures for run in runs),
        suspensions_per_job=fmean(run.suspensions for run in runs),
        lost_gpu_hours=sum(run.lost_s * run.gang.gpus for run in runs) / 3600,
        queue_longest=max(timeline.waiting),
        decided_s=took_s,
        bad_lines=trace.complaints.count,
        bad_lines_told=tuple(trace.complaints.told),
        queues=_queues(runs, parts, queues or ()),
        jain=_jain(parts),
        jain_of_due=_jain(shares.at_each_moment() if shares else {}),
        jain_of_due_over_run=_jain(shares.over_the_run() if shares else {}),
        quota_broken=broken,
        completion_s=tuple(at(completion, percent / 100) for percent in range(101)),
        timeline=thinned(timeline, first),
    )


def _jain(parts: Mapping[str, float]) -> float | None:
    return jain(parts.values()) if len(parts) > 1 else None


def at(ranked: Sequence[float], part: float) -> float:
    """The value below which `part` of the sorted values is."""
    return ranked[min(int(len(ranked) * part), len(ranked) - 1)]


def _queues(
    runs: Iterable[Run], parts: dict[str, float], queues: Sequence[Queue]
) -> tuple[QueueOutcome, ...]:
    took: dict[str, list[float]] = {}
    for run in runs:
        took.setdefault(run.gang.queue, []).append(run.ended_s - run.gang.submitted_s)
    if len(took) < 2 and not queues:
        return ()
    quota = {queue.name: queue.quota.gpu_milli for queue in queues}
    return tuple(
        QueueOutcome(
            name,
            None if (milli := quota.get(name)) is None else milli / WHOLE_GPU,
            len(times),
            parts.get(name, 1.0),
            fmean(times),
        )
        for name, times in sorted(took.items())
    )


def _allocation(trace: GangTrace, timeline: UsageTimeline) -> float:
    last = trace.gangs[-1].submitted_s
    used = there = 0.0
    ends = [*timeline.at_s[1:], last]
    for begin, end, has, of in zip(timeline.at_s, ends, timeline.used, timeline.there, strict=True):
        lasts = max(0.0, min(end, last) - begin)
        used += lasts * has
        there += lasts * of
    return 100 * used / there if there else 0.0


def thinned(
    timeline: UsageTimeline | WorldTimeline, first_s: float
) -> tuple[tuple[float, float, int, float, int], ...]:
    """At most `POINTS` points of the timeline, evenly over its changes."""
    total = len(timeline.at_s)
    step = max(1, total // POINTS)
    chosen = [*range(0, total, step)]
    if chosen[-1] != total - 1:
        chosen.append(total - 1)
    return tuple(
        (
            round((timeline.at_s[each] - first_s) / 3600, 4),
            timeline.used[each],
            timeline.there[each],
            timeline.wanted[each],
            timeline.waiting[each],
        )
        for each in chosen
    )
