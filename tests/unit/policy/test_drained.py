"""Work waits, and is not told to go, while a GPU that it needs is drained or lost."""

from __future__ import annotations

import pytest

from moiety.policy.cycle import decide
from moiety.policy.explain.explanation import explain
from moiety.policy.model.cluster import GpuDevice
from moiety.policy.model.decisions import PlacementRefusal, Reason
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Domain, Shape, Subgroup, Workload
from tests.unit.policy.build import node, refused, work

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
        "w waits: none of 1 nodes can take 2 GPUs now: "
        "1 have GPUs that are drained or lost, and too few others; "
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
