"""Work that ends whatever else waits: it has run for as long as it may, or lacks members."""

from __future__ import annotations

from moiety.policy.queue.queue_usage import NEAR_S
from moiety.policy.state.cluster_state import ClusterState


def overdue(state: ClusterState) -> dict[str, str]:
    """Workloads that have run for as long as they may, by name, with the reason to end them."""
    found = {}
    for name in sorted(state.bounded & state.tasks_of.keys()):
        most_s = state.workloads[name].max_run_s
        tasks = state.tasks_of.get(name)
        if most_s is None or not tasks:
            continue
        ran_s = state.snapshot.now_s - min(state.began[task].since_s for task in tasks)
        if ran_s >= most_s - NEAR_S:
            found[name] = f"it has run for {ran_s:.0f} s, and may for {most_s:.0f}"
    return found


def incomplete(state: ClusterState) -> dict[str, str]:
    """Gangs that have lost members and did not get them back, with the reason to end the rest."""
    found = {}
    for name in sorted(state.partial):
        parts = state.workloads[name].subgroups
        needed = sum(each.tasks_min for each in parts)
        has = sum(min(state.running[name, each.name], each.tasks_min) for each in parts)
        if has < needed:
            found[name] = f"only {has} of at least {needed} tasks of the gang have places"
    return found
