"""What the queues of a world have and wait for at a moment: for those that watch a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.workloads import Workload
from moiety.sim.job_run import JobRun
from moiety.sim.world import World


@dataclass(frozen=True, slots=True)
class WorldMoment:
    """A `runs.QueueMoment`; opportunistic work counts for no queue."""

    now_s: float
    gpus: int
    held: Counter[str]
    asked: Counter[str]
    kinds: Counter[tuple[str, float]]
    waiting: Sequence[JobRun]


def moment_of(world: World) -> WorldMoment:
    """The moment of a world after a decision."""
    held: Counter[str] = Counter(dict.fromkeys((each.name for each in world.trace.queues), 0))
    asked, kinds = held.copy(), Counter[tuple[str, float]]()
    waiting = []
    for run in world.active:
        workload = run.job.workload
        if workload.is_opportunistic or not run.job.gpus:
            continue
        spots = [each.spot for each in run.tasks.values()]
        has = sum(len(spot.gpus) * spot.gpu_milli for spot in spots) / WHOLE_GPU
        held[workload.queue] += has  # type: ignore[assignment]
        asked[workload.queue] += max(run.job.gpus - has, 0.0)  # type: ignore[assignment]
        if not run.rate:
            waiting.append(run)
            kinds[workload.queue, _required(workload)] += 1
    gpus = sum(len(node.gpus) for node in world.nodes)
    return WorldMoment(world.now_s, gpus, held, asked, kinds, waiting)


def _required(workload: Workload) -> float:
    """The GPUs without which it cannot run."""
    return (
        sum(
            each.tasks_min * each.shape.gpus * (each.shape.gpu_milli or WHOLE_GPU)
            for each in workload.subgroups
        )
        / WHOLE_GPU
    )
