"""The actions of a plan: the differences between a snapshot and the state after a cycle."""

from __future__ import annotations

from collections.abc import Container, Mapping

from moiety.policy.model.decisions import Decision, Eviction, Move, Placement
from moiety.policy.model.snapshot import Task
from moiety.policy.preempt.suspension import suspended
from moiety.policy.state.cluster_state import ClusterState


def actions(
    state: ClusterState,
    why: Mapping[Task, tuple[str, str | None]],
    overdue: Container[str],
    exchanges: Mapping[str, tuple[str, str]],
) -> list[Decision]:
    """Evictions and suspensions, then moves, then placements.

    `why` has the reason for each task that was ended or moved, and the workload that gets room;
    `overdue` the workloads that have run for as long as they may, `exchanges` those larger than
    what is due to their queue, with both queues.
    """
    evictions: list[Eviction] = []
    moves: list[Decision] = []
    placements: list[Decision] = []
    for task, before in state.changed():
        now = state.seated.get(task)
        if now == before:
            continue
        if before is None:
            assert now
            placements.append(Placement(task, state.pools.spot(now.place)))
            continue
        source = state.pools.spot(before.place)
        text, for_workload = why[task]
        if now is None:
            is_final = task.workload in overdue
            exchange = exchanges.get(task.workload)
            evictions.append(Eviction(task, source, text, for_workload, is_final, exchange))
        else:
            target = state.pools.spot(now.place)
            moves.append(Move(task, source, target, state.began[task].state_bytes, text))
    return [*suspended(evictions, state.began, state.snapshot.host_free), *moves, *placements]
