"""What queues had less than their part of, of late: a right to turns that fair shares do not give.

Fair shares are of a moment. A gang that is larger than its queue's would wait for as long as
others want the rest. But whoever has less than its part of the cluster while somebody waits gains
credit, and whoever has more loses it, as far as debt; a gang for which credit lasts a turn gets
that turn at the cost of those in debt. So what cannot be divided in space is divided in time.

Credit is in GPU-seconds (of thousandths of GPUs where amounts are), and half of it, or of the debt,
is gone after each half-life.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import QueueTree
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.queue.fairness import fading
from moiety.policy.queue.queue_usage import GPU_MILLI, NOTHING, QueueUsage

HALF_LIFE_S: Final = 7 * 86400.0
"""like that of use: what somebody did without last week still counts, last month's hardly"""


def credit_after(
    snapshot: Snapshot, elapsed_s: float, half_life_s: float = HALF_LIFE_S
) -> dict[str, float]:
    """GPU-seconds of each queue after `elapsed_s` of what runs now: `Snapshot.credit` from then on.

    It only fades while nobody waits for GPUs: what nobody misses is nobody's debt. Opportunists
    have what nobody wants: they do not count.
    """
    tree = QueueTree(snapshot.queues)
    standing = QueueUsage(snapshot.queues, snapshot.now_s, snapshot.monday_s)
    has = dict.fromkeys(tree.queues, 0.0)
    begun: dict[str, int] = {}
    work = {workload.name: workload for workload in snapshot.workloads}
    for each in snapshot.running:
        workload = work[each.task.workload]
        begun[workload.name] = begun.get(workload.name, 0) + 1
        if not workload.is_opportunistic and workload.queue in has:
            for name in tree.path(workload.queue):
                has[name] += len(each.spot.gpus) * each.spot.gpu_milli / WHOLE_GPU
    somebody_waits = any(
        begun.get(workload.name, 0) < sum(subgroup.tasks for subgroup in workload.subgroups)
        for workload in snapshot.workloads
        if not workload.is_opportunistic and any(each.shape.gpus for each in workload.subgroups)
    )
    parts: Mapping[str, float] = has
    if somebody_waits:
        gpus = sum(len(node.gpus) for node in snapshot.nodes)
        parts = parts_of(standing, gpus)
    return passed(snapshot.credit, parts, has, elapsed_s, half_life_s)


def parts_of(standing: QueueUsage, gpus: int) -> dict[str, float]:
    """GPUs of each queue if all of them asked for everything: quotas, and surplus by weight.

    Quotas that add up to more than there is are scaled down to it.
    """
    parts = standing.parts((gpus * WHOLE_GPU, *NOTHING[1:]))
    roots = [queue.name for queue in standing.tree.children.get(None, [])]
    total = sum(parts[name][GPU_MILLI] for name in roots)
    scale = min(1.0, gpus * WHOLE_GPU / total) if total else 0.0
    return {name: amounts[GPU_MILLI] * scale / WHOLE_GPU for name, amounts in parts.items()}


def passed(
    credit: Mapping[str, float],
    parts: Mapping[str, float],
    has: Mapping[str, float],
    elapsed_s: float,
    half_life_s: float = HALF_LIFE_S,
) -> dict[str, float]:
    """Credit after `elapsed_s` in which queues had `has` GPUs where `parts` were theirs."""
    kept = fading(elapsed_s, half_life_s)
    return {
        name: credit.get(name, 0.0) * kept + (part - has.get(name, 0.0)) * elapsed_s
        for name, part in parts.items()
    }
