"""What came of a replay, as numbers that can be kept and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bucket:
    """While so many percent of the capacity had arrived."""

    arrived_percent: int
    allocation_percent: float
    """of the cluster's GPUs, in the mean over the arrivals of this bucket"""
    fragments_percent: float | None
    """of the cluster's GPUs: free, but of no use to typical tasks; None: not looked at"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """With the published allocation of the same rule, list and seed."""

    buckets: int
    max_error_points: float
    at_percent: int
    """where it is largest"""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What a dynamic pool cost, until the last task ended."""

    name: str
    nodes_min: int
    nodes_max: int
    nodes_most: int
    """that it had at once, those that were being started included"""
    started: int
    """nodes, in all"""
    node_hours: float
    """from asking for each until it was given back"""
    static_node_hours: float
    """if it had always had as many as it may"""


@dataclass(frozen=True, slots=True)
class Live:
    """Of a replay in which tasks come and go."""

    lasted_s: float
    allocation_percent: float
    """of the cluster's GPUs, in the mean from the first coming to the last"""
    wait_mean_s: float
    wait_p95_s: float
    completion_mean_s: float
    """from coming to going"""
    completion_p99_s: float
    queue_longest: int
    timeline: Sequence[tuple[float, float, int]]
    """seconds, GPUs in use, tasks that wait: whenever that changed"""
    pools: Sequence[PoolUse] = ()
    """those that grow and shrink"""


@dataclass(frozen=True, slots=True)
class Result:
    """Of one replay."""

    trace: str
    placing: str
    choosing: str
    seed: int
    nodes: int
    gpus: float
    arrived: int
    """tasks"""
    placed: int
    refused: dict[str, int]
    """tasks by the reason that held for most nodes at the end"""
    bad_lines: int
    """lines of the trace that made no sense, or that ask for more than there is"""
    bad_lines_told: Sequence[str]
    """the first of them"""
    decided_s: float
    """real time spent on finding and taking places"""
    buckets: Sequence[Bucket] = ()
    published: Comparison | None = None
    live: Live | None = field(default=None)

    @property
    def decisions_per_s(self) -> float:
        """Real speed, refusals included."""
        return self.arrived / self.decided_s if self.decided_s else 0.0

    def allocation_at(self, percent: int) -> float | None:
        """While so much had arrived; None: it never had."""
        found = [b.allocation_percent for b in self.buckets if b.arrived_percent == percent]
        return found[0] if found else None

    def fragments_at(self, percent: int) -> float | None:
        """While so much had arrived; None: it never had, or nobody looked."""
        found = [b.fragments_percent for b in self.buckets if b.arrived_percent == percent]
        return found[0] if found else None


def saved_percent(pools: Sequence[PoolUse]) -> float:
    """The part of their node hours that pools saved by not always being as large as they may."""
    static = sum(pool.static_node_hours for pool in pools)
    used = sum(pool.node_hours for pool in pools)
    return 100 * (1 - used / static) if static else 0.0


def compare(
    buckets: Sequence[Bucket], published: Sequence[float | None] | None
) -> Comparison | None:
    """The largest difference in any bucket that both have."""
    if published is None:
        return None
    differences = [
        (abs(bucket.allocation_percent - value), bucket.arrived_percent)
        for bucket in buckets
        if bucket.arrived_percent < len(published)
        and (value := published[bucket.arrived_percent]) is not None
    ]
    if not differences:
        return None
    worst, at = max(differences)
    return Comparison(len(differences), round(worst, 6), at)
