"""What queues used of late: what `Snapshot.used` is from one cycle to the next."""

from __future__ import annotations

from typing import Final

from moiety.policy.model.queues import QueueTree
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.queue.fairness import decayed

HALF_LIFE_S: Final = 7 * 86400.0
"""after which use counts half: what somebody used last week still counts, last month's hardly"""


def used_after(
    snapshot: Snapshot, elapsed_s: float, half_life_s: float = HALF_LIFE_S
) -> dict[str, float]:
    """GPU thousandths of each queue in the mean, after `elapsed_s` of what runs now.

    Counts for all queues above too. Opportunists use what nobody wants: they do not count.
    """
    tree = QueueTree(snapshot.queues)
    has = dict.fromkeys(tree.queues, 0)
    work = {workload.name: workload for workload in snapshot.workloads}
    for each in snapshot.running:
        workload = work[each.task.workload]
        if not workload.is_opportunistic and workload.queue in has:
            for name in tree.path(workload.queue):
                has[name] += len(each.spot.gpus) * each.spot.gpu_milli
    before = snapshot.used
    return {
        name: decayed(before.get(name, 0.0), amount, elapsed_s, half_life_s)
        for name, amount in has.items()
    }
