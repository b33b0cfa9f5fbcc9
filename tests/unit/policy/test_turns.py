"""A turn on credit gives no right to what its queue has beside it."""

from __future__ import annotations

from dataclasses import replace

from moiety.policy.cycle import decide
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.preempt.turns import on_turn
from moiety.policy.queue.queue_usage import GPU_MILLI, NOTHING
from moiety.policy.state.cluster_state import ClusterState
from moiety.sim.scenario import after
from tests.unit.policy.build import evicted, node, placed, runs, work

HOUR = 3600.0


def test_a_turn_on_credit_costs_no_small_work_of_its_queue() -> None:
    """Else the small work ends for the turn and the turn for the small work, for ever."""
    quick, pair = work("quick", "a", priority=1), work("pair", "a", 2, submitted_s=1)
    singles = [work(f"b{at}", "b", submitted_s=at) for at in range(5)]
    held = [each for at, job in enumerate(singles[:4], start=1) for each in runs(job, (at,))]
    snapshot = Snapshot(
        (node(count=5),),
        (quick, pair, *singles),
        (*runs(quick, (0,)), *held),
        (
            Queue("a", quota=Amounts(gpu_milli=1000), weight=0),
            Queue("b", quota=Amounts(gpu_milli=2000)),
        ),
        now_s=HOUR,
        credit={"a": 9 * HOUR, "b": -9 * HOUR},
    )
    decisions = decide(snapshot)
    assert set(placed(decisions)) == {"pair/main/0"}
    assert {each.split("/")[0][0] for each in evicted(decisions)} == {"b"}
    later = after(snapshot, decisions)
    assert evicted(decide(later)) == []
    without = replace(later, credit={"a": 0.0, "b": 0.0})  # then it has too much
    assert evicted(decide(without)) != []


def test_what_is_on_a_turn_are_gangs_larger_than_the_fair_share_without_their_extra_tasks() -> None:
    gang, pair = work("gang", "a", tasks=4, least=3), work("pair", "a", 2)
    snapshot = Snapshot(
        (node(count=8),),
        (gang, pair, work("idle", "a", 4, is_opportunistic=True)),
        (*runs(gang, (0,), (1,), (2,), (3,)), *runs(pair, (4, 5))),
        (Queue("all"), Queue("a", "all"), Queue("b", "all")),
        credit={"a": 1.0, "all": 1.0},
    )
    state = ClusterState(snapshot, WorkloadMix(()))
    state.standing.fair["a"][GPU_MILLI] = state.standing.fair["all"][GPU_MILLI] = 2000
    assert on_turn(state, "a")[GPU_MILLI] == on_turn(state, "all")[GPU_MILLI] == 3000
    state.standing.credit = {"a": 0.0}
    assert on_turn(state, "a") == NOTHING
    state.standing.credit = {"a": 1.0}
    for task in list(state.tasks_of["gang"]):
        state.stop(task)
    assert on_turn(state, "a") == NOTHING
