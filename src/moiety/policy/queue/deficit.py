"""What queues recently had less than their part: a right to turns that fair shares do not give.

A fair share holds for a moment. A gang that is larger than its queue's fair share would wait for as
long as others want the rest. But while workloads wait, a queue with less than its part of the
cluster gains credit, and a queue with more loses it, down to debt. A gang for which credit lasts a
turn gets that turn at the cost of queues in debt. So a cluster that cannot be divided in space is
divided in time.

Credit is in GPU-seconds (of thousandths of GPUs where amounts are), and half of it, or of the debt,
is gone after each half-life.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import WEEK_S, Queue, QueueTree
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.queue.fairness import fading
from moiety.policy.queue.queue_usage import GPU_MILLI, NEAR_S, NOTHING, QueueUsage

HALF_LIFE_S: Final = 7 * 86400.0
"""As for use: a deficit of last week still counts, one of last month hardly."""


class QueueCredit:
    """The credit of each queue, kept while time passes."""

    def __init__(self, queues: Iterable[Queue], monday_s: float = 0.0) -> None:
        self._usage = QueueUsage(queues)
        self._monday_s = monday_s
        self._borders = self._usage.tree.borders()
        self._parts: dict[str, float] = {}
        self._parts_of: tuple[int, int] | None = None
        """The number of GPUs that `_parts` divides, and the span of the week."""
        self.of: dict[str, float] = {}
        """GPU-seconds by queue: `Snapshot.credit`."""

    def next_border_s(self, now_s: float) -> float | None:
        """When other quotas begin to hold; None: never."""
        return self._usage.next_border_s(now_s, self._monday_s)

    def passed(
        self, from_s: float, now_s: float, gpus: int, had: Mapping[str, float], *, is_waited: bool
    ) -> None:
        """Time has passed in which leaf queues had `had` of all GPUs; `is_waited`: work waited."""
        has = dict.fromkeys(self._usage.paths, 0.0)
        for leaf, amount in had.items():
            for name in self._usage.paths[leaf]:
                has[name] += amount
        parts = self._parts_at(from_s, gpus) if is_waited else has
        self.of = passed(self.of, parts, has, now_s - from_s)

    def _parts_at(self, at_s: float, gpus: int) -> dict[str, float]:
        since_s = at_s - self._monday_s
        span = bisect_right(self._borders, since_s % WEEK_S + NEAR_S)
        if self._parts_of != (gpus, span):
            self._usage.at(since_s)
            self._parts, self._parts_of = parts_of(self._usage, gpus), (gpus, span)
        return self._parts


def credit_after(
    snapshot: Snapshot, elapsed_s: float, half_life_s: float = HALF_LIFE_S
) -> dict[str, float]:
    """GPU-seconds of each queue after `elapsed_s` of what runs now: `Snapshot.credit` from then on.

    It only fades while no workload waits for GPUs, because then no queue lacks any. Opportunistic
    workloads use room that no other workload wants, so they do not count.
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
    """GPUs of each queue if all queues asked for all GPUs: quotas, and surplus by weight.

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
    """Credit after `elapsed_s` in which queues had `has` GPUs and were due `parts`."""
    kept = fading(elapsed_s, half_life_s)
    return {
        name: credit.get(name, 0.0) * kept + (part - has.get(name, 0.0)) * elapsed_s
        for name, part in parts.items()
    }
