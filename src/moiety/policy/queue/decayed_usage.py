"""The recent use of queues: how `Snapshot.used` goes on from one cycle to the next."""

from __future__ import annotations

from typing import Final

from moiety.policy.model.queues import QueueTree
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.queue.fairness import decayed

HALF_LIFE_S: Final = 7 * 86400.0
"""The time after which use counts half: use of last week still counts, use of last month hardly."""


def used_after(
    snapshot: Snapshot, elapsed_s: float, half_life_s: float = HALF_LIFE_S
) -> dict[str, float]:
    """GPU thousandths of each queue in the mean, after `elapsed_s` of what runs now.

    Use counts for all queues above too. Opportunistic workloads use room that no other workload
    wants, so their use does not count.
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
