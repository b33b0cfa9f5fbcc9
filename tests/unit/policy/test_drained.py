"""Work waits, and is not told to go, while a GPU that it needs is drained or lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moiety.policy.cycle import decide
from moiety.policy.explain.explanation import explain
from moiety.policy.model.cluster import GpuDevice
from moiety.policy.model.decisions import PlacementRefusal, Reason
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Domain, Shape, Subgroup, Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.kept_state import KeptState
from tests.unit.policy.build import evicted, node, placed, refused, runs, work

ONE_DRAINED = (GpuDevice(0), GpuDevice(1, is_healthy=False))
UNLIKE = Workload("w", tuple(Subgroup(f"s{cpu}", Shape(cpu, 0, 1, 1000)) for cpu in range(2)), "a")


def why(workload: Workload) -> PlacementRefusal:
    return refused(decide(Snapshot((node(gpus=ONE_DRAINED),), (workload,))))["w"]


def test_two_gpus_of_which_one_is_drained_are_waited_for() -> None:
    workload = work("w", count=2)
    refusal = why(workload)
    assert (refusal.reason, refusal.is_final) == (Reason.GPUS_DRAINED, False)
    found = explain(Snapshot((node(gpus=ONE_DRAINED),), (workload,)), "w")
    assert found.status == "waits"
    assert found.sentence.startswith(
        "w waits: the only node cannot take 2 GPUs now: "
        "it has GPUs that are drained or lost, and too few others; "
    )


@pytest.mark.parametrize(
    "gang", [work("w", tasks=2), UNLIKE, work("w", tasks=2, domain=Domain("node"))]
)
def test_a_gang_waits_for_a_gpu_that_is_drained(gang: Workload) -> None:
    refusal = why(gang)
    assert (refusal.reason, refusal.is_final) == (Reason.GPUS_DRAINED, False)
    assert "even when empty, while 1 of their GPUs is drained or lost" in refusal.text
    assert refusal.numbers["places_when_empty"] == 1


def test_a_node_of_which_all_gpus_are_lost_still_has_gpus() -> None:
    lost = node(gpus=tuple(GpuDevice(at, is_healthy=False) for at in range(2)))
    refusal = refused(decide(Snapshot((lost,), (work("w"),))))["w"]
    assert (refusal.reason, refusal.is_final) == (Reason.GPUS_DRAINED, False)


@pytest.mark.parametrize("too_large", [work("w", count=3), work("w", tasks=3)])
def test_what_is_too_large_for_all_gpus_never_runs(too_large: Workload) -> None:
    refusal = why(too_large)
    assert (refusal.reason, refusal.is_final) == (Reason.NODE_SIZE, True)
    assert "drained" not in refusal.text


def test_a_gang_that_asks_for_gpus_nobody_has_is_final_beside_drained_ones() -> None:
    shapes = Shape(0, 0, 1, 1000), Shape(0, 0, 4, 1000)
    gang = Workload("w", tuple(Subgroup(f"s{at}", each) for at, each in enumerate(shapes)), "a")
    assert why(gang).is_final


FIRST = work("first")


def drained(*others: Workload, free: bool = True, **more: Any) -> Snapshot:
    """`first` runs on a GPU that is drained; the other one is free, or `second` has it."""
    second = work("second", submitted_s=1.0, priority=more.pop("priority", 0))
    running = runs(FIRST, (1,)) + ([] if free else runs(second, (0,)))
    there = (FIRST, *others) if free else (FIRST, second, *others)
    return Snapshot((node(gpus=ONE_DRAINED),), there, tuple(running), now_s=99.0)


def test_what_runs_on_a_drained_gpu_goes_on_and_others_begin_beside_it() -> None:
    decisions = decide(drained(work("w", submitted_s=2.0)))
    assert evicted(decisions) == []
    assert {name: spot.gpus for name, spot in placed(decisions).items()} == {"w/main/0": (0,)}


def test_nothing_begins_on_a_drained_gpu_whose_work_has_ended() -> None:
    kept = KeptState()
    before = drained(work("w", submitted_s=2.0), free=False)
    known = WorkloadMix(())
    assert placed(decide(before, known, kept=kept)) == {}
    second_runs = before.running[1:]
    after = replace(before, workloads=before.workloads[1:], running=second_runs)
    for plan in (decide(after, known, kept=kept), decide(after, known)):
        assert placed(plan) == {}
        assert evicted(plan) == []


def test_work_on_a_drained_gpu_does_not_end_for_others() -> None:
    """It would free nothing. It has the least priority, and was first to end."""
    decisions = decide(drained(work("w", submitted_s=2.0, priority=9), free=False, priority=5))
    assert evicted(decisions) == ["second/main/0"]
    assert {name: spot.gpus for name, spot in placed(decisions).items()} == {"w/main/0": (0,)}


def test_a_task_on_a_drained_gpu_can_come_back_to_it_in_a_trial() -> None:
    """Nothing is free there, and nothing has begun there."""
    gang = work("gang", tasks=2)
    snapshot = Snapshot((node(gpus=ONE_DRAINED),), (gang,), tuple(runs(gang, (0,), (1,))))
    state = ClusterState(snapshot, WorkloadMix(()))
    ended = [(task, state.stop(task)) for task in list(state.seated)]
    assert all(state.try_return(task, seated) for task, seated in ended)
