"""What gangs have that run on credit, because they are larger than all that is due to their queue.

While credit lasts, others do not take that back by fair share, and it gives them no right to what
the queue has beside it. Else the small work of a queue would end for its gang, the gang for that
work, and both again at the same moment, for ever.
"""

from __future__ import annotations

from operator import add

from moiety.policy.queue.queue_usage import GPU_MILLI, NOTHING, Vector
from moiety.policy.state.cluster_state import ClusterState


def on_turn(state: ClusterState, queue: str) -> Vector:
    """The amounts that gangs of a queue, or below it, have on credit."""
    standing = state.standing
    if standing.credit.get(queue, 0.0) <= 0:
        return NOTHING
    of = standing.changed[queue], standing.shares_version
    kept = state.turns.get(queue)
    if kept is None or kept[0] != of:
        kept = state.turns[queue] = of, _find(state, queue)
    return kept[1]


def _find(state: ClusterState, queue: str) -> Vector:
    paths, workloads = state.standing.paths, state.workloads
    total = NOTHING
    for name, tasks in state.tasks_of.items():
        workload = workloads[name]
        if not tasks or workload.is_opportunistic or queue not in paths[workload.queue]:
            continue
        amounts = [state.seated[task].amounts for task in tasks]
        if not state.standing.is_too_much(queue, sum(each[GPU_MILLI] for each in amounts)):
            continue
        for subgroup in workload.subgroups:  # what it can do without yields by itself
            own = sorted(task for task in tasks if task.subgroup == subgroup.name)
            for task in own[: subgroup.tasks_min]:
                total = tuple(map(add, total, state.seated[task].amounts))
    return total
