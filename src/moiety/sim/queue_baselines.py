"""Orders with queues to compare the engine with: FIFO, backfill, FIFO for each queue, and DRF.

They start work and stop none for other work. They place, and let pools grow, as the engine does, so
that a comparison is one of orders.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from moiety.policy.autoscaler import scale
from moiety.policy.memory import Event
from moiety.policy.model.decisions import CyclePlan, Decision, Eviction, Placement
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.preempt.overdue import incomplete, overdue
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.kept_state import KeptState

HOUR_S: Final = 3600.0


class QueuePlanner:
    """An order in which work starts, and stops for no other work. It keeps limits of queues."""

    def __init__(self, name: str, mix: WorkloadMix) -> None:
        self.name = name
        self._next = ORDERS[name]
        self._mix = mix
        self._kept = KeptState()

    def shown(self, workload: Workload) -> Workload:
        """As it is."""
        return workload

    def learn(self, event: Event) -> None:
        """It learns nothing."""

    def next_look_s(self, now_s: float, since_s: float) -> float | None:
        """Each hour: quotas may change with the time of day."""
        return None if now_s >= since_s + HOUR_S else since_s + HOUR_S

    def plan(self, snapshot: Snapshot) -> CyclePlan:
        """Start work; stop what has had its time, and gangs that lost members for good."""
        state = self._kept.follow(snapshot, self._mix, WorkBudget())
        over = overdue(state)
        _end(state, over)
        self._serve(state, over)
        lost = incomplete(state)
        _end(state, lost)
        evictions: list[Decision] = []
        placements: list[Decision] = []
        for task, before in state.changed():
            now = state.seated.get(task)
            if now is not None:
                placements.append(Placement(task, state.pools.spot(now.place)))
            elif before is not None:
                name = task.workload
                source, text = state.pools.spot(before.place), over.get(name) or lost[name]
                evictions.append(Eviction(task, source, text, is_final=name in over))
        grows = any(pool.is_dynamic for pool in snapshot.pools)
        scaled = scale(state, self._mix, over).decisions if grows else ()
        return CyclePlan([*evictions, *placements, *scaled])

    def _serve(self, state: ClusterState, without: Container[str]) -> None:
        """Start work in the order, each queue's first piece before its second one."""
        waiting: dict[str, list[Workload]] = {}
        names = sorted(
            (name for name in state.unmet if name not in without),
            key=lambda name: _age(state.workloads[name]),
        )
        for name in names:
            waiting.setdefault(state.workloads[name].queue, []).append(state.workloads[name])
        heads = {queue: iter(works) for queue, works in waiting.items()}
        first = {queue: next(works) for queue, works in heads.items()}
        while first:
            queue = self._next(state, first)
            workload = first[queue]
            piece = next_piece(state, workload)
            if piece is not None and start_piece(state, piece):
                continue
            if piece is not None and not piece.is_extra:
                if self.name == "fifo":
                    break
                if self.name in STRICT:
                    del first[queue]
                    continue
            following = next(heads[queue], None)
            if following is None:
                del first[queue]
            else:
                first[queue] = following


def _end(state: ClusterState, names: Iterable[str]) -> None:
    for name in names:
        for task in list(state.tasks_of[name]):
            state.stop(task)


def _age(workload: Workload) -> tuple[int, float, str]:
    return -workload.priority, workload.submitted_s, workload.name


def _oldest(_: ClusterState, first: dict[str, Workload]) -> str:
    """The queue whose first piece waits longest."""
    return min(first, key=lambda queue: (_age(first[queue]), queue))


def _least_dominant(state: ClusterState, first: dict[str, Workload]) -> str:
    """Dominant resource fairness (Ghodsi et al., NSDI '11), with the weights of queues."""
    return min(first, key=lambda queue: (_dominant(state, queue), _age(first[queue]), queue))


def _dominant(state: ClusterState, queue: str) -> float:
    parts = [
        has / there
        for has, there in zip(state.standing.has[queue], state.capacity, strict=True)
        if there
    ]
    return max(parts, default=0.0) / max(state.standing.tree.queues[queue].weight, 1e-9)


Choose = Callable[[ClusterState, dict[str, Workload]], str]
ORDERS: Final[dict[str, Choose]] = {
    "fifo": _oldest,
    "backfill": _oldest,
    "fifo-queues": _oldest,
    "drf": _least_dominant,
}
"""`fifo`: the first of all; `backfill`: others too, if they fit; `fifo-queues`: the first of each
queue, and no queue waits for another; `drf`: the queue with the smallest dominant share."""
STRICT: Final = frozenset({"fifo-queues", "drf"})
"""No work passes earlier work of its own queue."""
