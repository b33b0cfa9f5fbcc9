"""What queues of a trace may be taken to be promised, whether they had it, and how equally."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Queue, QueueTree
from moiety.policy.queue.queue_usage import NEAR_S
from moiety.sim.gangs import GangTrace
from moiety.sim.runs import QueueMoment, Run


def queues_by_use(trace: GangTrace) -> tuple[Queue, ...]:
    """The queues that the trace names; the quota of each is the part of all GPUs that it used.

    Traces do not say what was promised to a queue. Quotas are whole GPUs, by the largest remainder.
    Each queue has at least one GPU, which the largest quotas give up, if there are as many GPUs as
    queues.
    """
    used: Counter[str] = Counter()
    for gang in trace.gangs:
        used[gang.queue] += int(gang.gpus * gang.duration_s)
    total = sum(used.values()) or 1
    parts = {queue: trace.gpus * amount / total for queue, amount in used.items()}
    quota = {queue: int(part) for queue, part in parts.items()}
    left = trace.gpus - sum(quota.values())
    for queue in sorted(parts, key=lambda each: (quota[each] - parts[each], each))[:left]:
        quota[queue] += 1
    if len(quota) <= trace.gpus:
        for queue in sorted(quota):
            if not quota[queue]:
                most = max(quota, key=lambda each: (quota[each], each))
                quota[most] -= 1
                quota[queue] = 1
    return tuple(
        Queue(queue, quota=Amounts(gpu_milli=quota[queue] * WHOLE_GPU), weight=max(quota[queue], 1))
        for queue in sorted(quota)
    )


class QuotaWatch:
    """Checks after each decision whether a gang waits that is entitled to GPUs by quota.

    A gang is entitled if it stays within the quota of its queue and of each queue above. What no
    quota bounds is not promised.
    """

    def __init__(self, queues: Iterable[Queue], monday_s: float = 0.0) -> None:
        tree = QueueTree(queues)
        self._paths = {name: tree.path(name) for name in tree.queues}
        self._queues = tree.queues
        self._monday_s = monday_s
        self._quota: dict[str, int | None] = {}
        self.moments = 0
        self.broken = 0
        """Moments at which an entitled gang waited."""

    def __call__(self, pool: QueueMoment) -> None:
        """Check the pool; the replay calls this after each decision."""
        self.moments += 1
        if not pool.waiting:
            return
        since = pool.now_s - self._monday_s + NEAR_S  # as the engine asks
        self._quota = {name: each.quota_at(since).gpu_milli for name, each in self._queues.items()}
        held: dict[str, float] = defaultdict(float)
        for queue, gpus in pool.held.items():
            for name in self._paths[queue]:
                held[name] += gpus
        asking = (queue for queue, gpus in pool.asked.items() if gpus)
        open_ = {queue for queue in asking if self._is_entitled(held, queue, 0)}
        if not open_:
            return
        self.broken += any(
            count and queue in open_ and self._is_entitled(held, queue, gpus)
            for (queue, gpus), count in pool.kinds.items()
        )

    def _is_entitled(self, held: Mapping[str, float], queue: str, gpus: float) -> bool:
        bounds = [(name, self._quota[name]) for name in self._paths[queue]]
        return any(quota is not None for _, quota in bounds) and all(
            quota is None or (held[name] + gpus) * WHOLE_GPU <= quota for name, quota in bounds
        )


def satisfied(runs: Iterable[Run]) -> dict[str, float]:
    """For each queue, the part of the GPUs that it asked for, over time, that it had."""
    had: dict[str, float] = defaultdict(float)
    wanted: dict[str, float] = defaultdict(float)
    for run in runs:
        gang = run.gang
        had[gang.queue] += gang.gpus * gang.duration_s
        wanted[gang.queue] += gang.gpus * (run.ended_s - gang.submitted_s)
    return {queue: had[queue] / wanted[queue] for queue in had if wanted[queue]}


def jain(parts: Iterable[float]) -> float:
    """Jain's index of fairness: 1 is equal, 1/n is all for one."""
    values = list(parts)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
