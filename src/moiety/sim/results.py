"""The results of a replay, as numbers that can be kept and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bucket:
    """The means while `arrived_percent` of the capacity had arrived."""

    arrived_percent: int
    allocation_percent: float
    """Allocated part of the cluster's GPUs, in the mean over the arrivals of this bucket."""
    fragments_percent: float | None
    """Part of the cluster's GPUs that is free, but of no use to typical tasks; None: not known."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference from the published allocation of the same rule, list and seed."""

    buckets: int
    max_error_points: float
    at_percent: int
    """The arrived percent at which the error is largest."""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What a dynamic pool cost, until the last task ended."""

    name: str
    nodes_min: int
    nodes_max: int
    nodes_most: int
    """The most nodes that it had at once, with the nodes that were being started."""
    started: int
    """Nodes that were started, in all."""
    node_hours: float
    """Hours from the request for each node until it was given back."""
    static_node_hours: float
    """Hours if the pool had always had `nodes_max` nodes."""


@dataclass(frozen=True, slots=True)
class Live:
    """The results of a replay in which tasks arrive and end."""

    lasted_s: float
    allocation_percent: float
    """Allocated part of the cluster's GPUs, in the mean from the first arrival to the last."""
    wait_mean_s: float
    wait_p95_s: float
    completion_mean_s: float
    """The mean time from submission to end."""
    completion_p99_s: float
    queue_longest: int
    timeline: Sequence[tuple[float, float, int]]
    """Seconds, GPUs in use and waiting tasks, at each change."""
    pools: Sequence[PoolUse] = ()
    """The pools that grow and shrink."""


@dataclass(frozen=True, slots=True)
class Result:
    """The results of one replay."""

    trace: str
    placing: str
    choosing: str
    seed: int
    nodes: int
    gpus: float
    arrived: int
    """Tasks that arrived."""
    placed: int
    refused: dict[str, int]
    """Refused tasks by the reason that held for most nodes at the end."""
    bad_lines: int
    """Lines of the trace that make no sense, or that ask for more than the cluster has."""
    bad_lines_told: Sequence[str]
    """The first complaints about bad lines."""
    decided_s: float
    """Real time spent on finding and taking places."""
    buckets: Sequence[Bucket] = ()
    published: Comparison | None = None
    live: Live | None = field(default=None)

    @property
    def decisions_per_s(self) -> float:
        """Real speed, refusals included."""
        return self.arrived / self.decided_s if self.decided_s else 0.0

    def allocation_at(self, percent: int) -> float | None:
        """The allocation while `percent` had arrived; None: that much never arrived."""
        found = [b.allocation_percent for b in self.buckets if b.arrived_percent == percent]
        return found[0] if found else None

    def fragments_at(self, percent: int) -> float | None:
        """The fragments while `percent` had arrived; None: never arrived, or not measured."""
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
