"""The pieces in which workloads wait, and what queues wait for in all.

A workload waits in pieces: first the tasks without which it cannot run, all at once, then its extra
tasks, one at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.queue.queue_usage import Vector
from moiety.policy.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class GangPart:
    """Tasks of a workload that begin together or not at all."""

    workload: Workload
    tasks: tuple[tuple[Task, Shape], ...]
    """The tasks, the largest first."""
    shapes: tuple[tuple[Shape, int], ...]
    """The number of tasks of each shape."""
    amounts: Vector
    is_extra: bool
    """Whether the workload runs without them too."""
    likeness: int
    """Equal for pieces of which one has room exactly if the other has."""
    claim: int
    """Equal for pieces that have the same rights, and need the same room."""
    is_tied: bool = False
    """Whether it asks for domains of the topology."""


def next_piece(state: ClusterState, workload: Workload) -> GangPart | None:
    """The piece that a workload waits for next; None: all its tasks run."""
    name = workload.name
    if name not in state.unmet:
        return None
    kept = state.kept.get(name)
    if isinstance(kept, GangPart):
        return kept
    piece = _next_piece(state, workload)
    state.kept[name] = piece
    return piece


def _next_piece(state: ClusterState, workload: Workload) -> GangPart:
    name = workload.name
    if len(workload.subgroups) == 1 and not state.tasks_of.get(name):  # the usual case, and quick
        [only] = workload.subgroups
        if only.tasks_min:
            shape, own = only.shape, only.name
            first = [(Task(name, own, index), shape) for index in range(only.tasks_min)]
            return _piece(state, workload, first, is_extra=False)
    needed: list[tuple[Task, Shape]] = []
    extra: tuple[Task, Shape] | None = None
    for subgroup in workload.subgroups:
        running = state.running[name, subgroup.name]
        if running >= subgroup.tasks:
            continue
        wanted = max(subgroup.tasks_min - running, 0)
        if not wanted and (needed or extra):
            continue
        tasks = (Task(name, subgroup.name, index) for index in range(subgroup.tasks))
        waiting = (task for task in tasks if task not in state.seated)
        if wanted:
            needed += [(task, subgroup.shape) for task in islice(waiting, wanted)]
        else:
            extra = next(waiting), subgroup.shape
    if needed:
        needed.sort(key=lambda each: (-each[1].total_milli, -each[1].cpu_milli))
        return _piece(state, workload, needed, is_extra=False)
    assert extra
    return _piece(state, workload, [extra], is_extra=True)


def _piece(
    state: ClusterState, workload: Workload, tasks: list[tuple[Task, Shape]], *, is_extra: bool
) -> GangPart:
    if len(workload.subgroups) == 1:
        shapes: tuple[tuple[Shape, int], ...] = ((tasks[0][1], len(tasks)),)
        own = list(workload.subgroups)
    else:
        shapes = tuple(Counter(shape for _, shape in tasks).items())
        names = {task.subgroup for task, _ in tasks}
        own = [subgroup for subgroup in workload.subgroups if subgroup.name in names]
    is_tied = bool(workload.domain) or any(subgroup.domain for subgroup in own)
    ties: tuple[object, ...] = ()  # what it asks for beside room: equal ties are equally hard
    if is_tied or state.companies:
        counts = Counter(task.subgroup for task, _ in tasks)
        ties = (
            workload.domain,
            *((each.domain, each.company, each.shape, counts[each.name]) for each in own),
        )
        if is_tied and state.tasks_of.get(workload.name):
            ties = *ties, workload.name  # it has to go where the rest of it is
    likeness = state.number((workload.pools, shapes, ties))
    rights = workload.queue, workload.is_preemptible, workload.is_opportunistic, workload.priority
    return GangPart(
        workload,
        tuple(tasks),
        shapes,
        state.amounts_of(shapes),
        is_extra,
        likeness,
        state.number((rights, likeness)),
        is_tied,
    )
