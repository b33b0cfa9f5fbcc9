"""Tries that are left out because their end is known: plans stay the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moiety.policy.model.queues import Amounts
from moiety.policy.preempt import preemption_trial
from moiety.policy.state.cluster_state import ClusterState
from moiety.sim.by_queue import queues_by_use
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.runs import RestartCost, replay


def crowded(seed: int, jobs: int = 100) -> GangTrace:
    """More gangs than there is room for, in queues that own different parts of the cluster."""
    random = Random(seed)
    gangs = tuple(
        GangJob(
            f"g{at}",
            random.choice((1, 1, 2, 4, 8)),
            random.uniform(0, 40_000),
            random.choice((60.0, 900.0, 30_000.0)),
            random.choice("abbccccdddddddd"),
            random.choice("xyz"),
        )
        for at in range(jobs)
    )
    return GangTrace("t", gangs, (8, 8, 8, 8))


@pytest.mark.parametrize("is_limited", [False, True])
def test_plans_are_the_same_without_tries_of_which_the_end_is_known(
    is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    returns: list[int] = []
    come_back = preemption_trial.come_back

    def noted(state: ClusterState, ended: list[preemption_trial.EndedUnit], moves_max: int) -> bool:
        returns.append(len(ended))
        return come_back(state, ended, moves_max)

    def ends() -> list[tuple[float, float | None, int]]:
        found = []
        for seed in range(1, 4):
            trace = crowded(seed)
            queues = queues_by_use(trace)
            if is_limited:
                limit = Amounts(gpu_milli=24_000)
                queues = tuple(replace(queue, limit=limit) for queue in queues)
            runs, _ = replay(trace, Engine(queues), RestartCost(30.0))
            found += [(run.ended_s, run.began_s, run.preemptions) for run in runs]
        return found

    monkeypatch.setattr(preemption_trial, "come_back", noted)
    some = ends()
    left_out = len(returns)
    returns.clear()
    monkeypatch.setattr(ClusterState, "all_could_return", lambda _: False)
    assert ends() == some
    assert left_out < len(returns)
