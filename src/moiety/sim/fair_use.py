"""The part of its fair share that each queue had, over time.

A queue's demand at a moment is the GPUs that it holds and the GPUs that it waits for. Its fair
share then is its quota and its part of what other queues leave, at most its demand. Waiting for
more than the fair share is overload; only waiting for the fair share counts here. The result can
stay below 1: gangs that find no room together, quotas that do not hold and surplus that other
queues keep all count against it. GPU time of restarts counts as had.

There are two sums. Over the run: the GPU time that a queue had, over its fair share, at most 1;
more GPU time later makes good for an earlier wait. At each moment: GPUs beyond the fair share of
that moment make good for nothing, so that a gang larger than its queue's share counts as that
share while it runs, and as nothing while it waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Queue
from moiety.policy.queue.queue_usage import GPU_MILLI, NOTHING, QueueUsage
from moiety.sim.runs import QueueMoment


class FairWatch:
    """Adds up after each decision what held until the next one."""

    def __init__(self, queues: Iterable[Queue], monday_s: float = 0.0) -> None:
        self._standing = QueueUsage(queues)
        self._monday_s = monday_s
        self._counted: dict[str, float] = defaultdict(float)
        self._since_s = 0.0
        self._of_what: tuple[object, ...] | None = None
        """What `_now` was found from."""
        self._now: dict[str, tuple[float, float]] = {}
        self._had_in_all: dict[str, float] = defaultdict(float)
        self._had: dict[str, float] = defaultdict(float)
        self._due: dict[str, float] = defaultdict(float)

    def __call__(self, pool: QueueMoment) -> None:
        """Add up the time since the last decision."""
        lasted_s = pool.now_s - self._since_s
        for queue, (had, due) in self._now.items():
            self._had[queue] += min(had, due) * lasted_s
            self._had_in_all[queue] += had * lasted_s
            self._due[queue] += due * lasted_s
        self._since_s = pool.now_s
        held = {queue: gpus for queue, gpus in pool.held.items() if gpus}
        asked = {queue: gpus for queue, gpus in pool.asked.items() if gpus}
        quotas = self._standing.quotas_at(pool.now_s - self._monday_s)
        what = held, asked, bool(pool.waiting), pool.gpus, quotas
        if what != self._of_what:
            self._of_what, self._now = what, self._of(pool)

    def _of(self, pool: QueueMoment) -> dict[str, tuple[float, float]]:
        """The GPUs and the fair share of each queue that has a fair share, in GPUs."""
        standing = self._standing
        for queue, gpus in pool.held.items():
            more = gpus - self._counted[queue]
            if more:
                amounts = round(more * WHOLE_GPU), *NOTHING[1:]
                standing.add(queue, amounts, 1, guaranteed=False)
                self._counted[queue] = gpus
        if not pool.waiting:
            return {queue: (gpus, gpus) for queue, gpus in pool.held.items() if gpus}
        standing.at(pool.now_s - self._monday_s)
        asked = {
            queue: (round(gpus * WHOLE_GPU), *NOTHING[1:]) for queue, gpus in pool.asked.items()
        }
        standing.share_out((pool.gpus * WHOLE_GPU, *NOTHING[1:]), asked)
        found: dict[str, tuple[float, float]] = {}
        for queue in pool.held.keys() | pool.asked.keys():
            due = standing.fair[queue][GPU_MILLI] / WHOLE_GPU
            if due:
                found[queue] = pool.held[queue], due
        return found

    def over_the_run(self) -> dict[str, float]:
        """For each queue that ever had a fair share, the part of it that the queue had in all."""
        had = self._had_in_all
        return {queue: min(1.0, had[queue] / due) for queue, due in self._due.items() if due}

    def at_each_moment(self) -> dict[str, float]:
        """The same, where GPUs beyond the fair share of a moment do not count."""
        return {queue: self._had[queue] / due for queue, due in self._due.items() if due}
