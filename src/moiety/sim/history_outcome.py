"""Replays a history with an order, and counts what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.sim.by_queue import QuotaWatch, jain
from moiety.sim.cluster_trace import ClusterTrace
from moiety.sim.fair_use import FairWatch
from moiety.sim.job_records import JobRecord
from moiety.sim.job_run import JobRun
from moiety.sim.outcome import GangOutcome, QueueOutcome, at, thinned
from moiety.sim.planners import planner_of
from moiety.sim.runs import Progress, RestartCost
from moiety.sim.world import World
from moiety.sim.world_moment import moment_of


@dataclass(frozen=True, slots=True)
class HistoryReplay:
    """The figures of a replay, and each of its jobs."""

    outcome: GangOutcome
    records: Sequence[JobRecord]
    never: Sequence[str] = ()
    """Jobs that never ended: from some moment on nothing happened that gave them room."""


def run_history(
    trace: ClusterTrace, name: str, cost: RestartCost, progress: Progress = lambda _: None
) -> HistoryReplay:
    """Replay, and count. Raises InvalidValue for an unknown order, or if no job ever ends."""
    began = time.perf_counter()
    planner = planner_of(name, trace.mix, has_queues=bool(trace.queues))
    quotas, shares = (
        QuotaWatch(trace.queues, trace.monday_s),
        FairWatch(trace.queues, trace.monday_s),
    )

    def watch(world: World) -> None:
        if trace.queues:
            moment = moment_of(world)
            quotas(moment)
            shares(moment)

    world = World(trace, planner, cost, progress, watch)
    world.run()
    took_s = time.perf_counter() - began
    over = [run for run in world.runs if run.ended_s is not None]
    never = tuple(run.name for run in world.runs if run.ended_s is None)
    if not over:
        raise InvalidValue(
            f"none of the jobs of {trace.name} ever ended: {never[0]} got no room",
            "changes and limits that leave enough room",
        )
    records = tuple(_record(run, name) for run in world.runs)
    outcome = _count(trace, name, world, over, took_s)
    if trace.queues:
        outcome = replace(
            outcome,
            quota_broken=quotas.broken,
            jain_of_due=_jain(shares.at_each_moment()),
            jain_of_due_over_run=_jain(shares.over_the_run()),
        )
    return HistoryReplay(outcome, records, never)


def _jain(parts: Mapping[str, float]) -> float | None:
    return jain(parts.values()) if len(parts) > 1 else None


def _record(run: JobRun, order: str) -> JobRecord:
    own = run.job.workload
    return JobRecord(
        own.name,
        order,
        own.queue,
        own.user,
        run.job.gpus,
        own.submitted_s,
        run.began_s,
        run.ended_s,
        run.job.duration_s,
        run.stops,
        run.failures,
        run.nodes,
    )


def _count(
    trace: ClusterTrace, name: str, world: World, over: Sequence[JobRun], took_s: float
) -> GangOutcome:
    completion = sorted(_lasted(run) for run in over)
    wait = sorted(max(0.0, _lasted(run) - run.job.duration_s) for run in over)
    starts = sorted((run.began_s or 0.0) - run.job.workload.submitted_s for run in over)
    line = world.timeline
    queues, parts = _queues(trace, over)
    return GangOutcome(
        trace=trace.name,
        order=name,
        knows_durations=False,
        nodes=len(trace.nodes),
        gpus=sum(len(node.gpus) for node in trace.nodes),
        jobs=len(trace.jobs),
        lasted_s=max(run.ended_s or 0.0 for run in over) - trace.first_s,
        allocation_percent=_allocation(world),
        completion_mean_s=fmean(completion),
        completion_p50_s=at(completion, 0.5),
        completion_p95_s=at(completion, 0.95),
        completion_p99_s=at(completion, 0.99),
        wait_mean_s=fmean(wait),
        wait_p95_s=at(wait, 0.95),
        first_start_p95_s=at(starts, 0.95),
        preemptions_per_job=fmean(run.stops for run in over),
        failures=sum(run.failures for run in world.runs),
        queue_longest=max(line.waiting),
        decided_s=took_s,
        bad_lines=trace.complaints.count,
        bad_lines_told=tuple(trace.complaints.told),
        queues=queues,
        jain=_jain(parts),
        completion_s=tuple(at(completion, percent / 100) for percent in range(101)),
        timeline=thinned(line, trace.first_s),
    )


def _lasted(run: JobRun) -> float:
    assert run.ended_s is not None
    return run.ended_s - run.job.workload.submitted_s


def _queues(
    trace: ClusterTrace, over: Sequence[JobRun]
) -> tuple[tuple[QueueOutcome, ...], dict[str, float]]:
    """What each queue had; and of the GPUs that it asked for, over time, the part that it had."""
    took: dict[str, list[float]] = {}
    had: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for run in over:
        queue = run.job.workload.queue
        took.setdefault(queue, []).append(_lasted(run))
        had[queue] += run.job.gpus * run.job.duration_s  # type: ignore[assignment]
        asked[queue] += run.job.gpus * _lasted(run)  # type: ignore[assignment]
    quota = {queue.name: queue.quota.gpu_milli for queue in trace.queues}
    parts = {queue: had[queue] / asked[queue] if asked[queue] else 1.0 for queue in took}
    if len(took) < 2 and not quota:
        return (), {}
    found = tuple(
        QueueOutcome(
            name,
            None if (milli := quota.get(name)) is None else milli / WHOLE_GPU,
            len(times),
            min(parts[name], 1.0),
            fmean(times),
        )
        for name, times in sorted(took.items())
    )
    return found, parts


def _allocation(world: World) -> float:
    """The part of the GPUs that was in use, from the first submission to the last."""
    line, last_s = world.timeline, world.trace.last_s
    used = there = 0.0
    ends = [*line.at_s[1:], last_s]
    for begin, end, has, of in zip(line.at_s, ends, line.used, line.there, strict=True):
        lasts = max(0.0, min(end, last_s) - begin)
        used += lasts * has
        there += lasts * of
    return 100 * used / there if there else 0.0
