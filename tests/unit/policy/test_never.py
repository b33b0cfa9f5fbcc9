"""What can never run is said to be so, and is not ahead of anything."""

from __future__ import annotations

import pytest

from moiety.policy.cycle import decide
from moiety.policy.explain.explanation import explain
from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.decisions import Reason
from moiety.policy.model.queues import Amounts, Queue, Window
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from tests.unit.policy.build import node, refused, work

ALIKE = work("gang", tasks=5)
UNLIKE = Workload(
    "gang", tuple(Subgroup(f"s{cpu}", Shape(cpu, 0, 1, 1000)) for cpu in range(5)), "a"
)
LIMITED = Queue("a", quota=Amounts(gpu_milli=1000), limit=Amounts(gpu_milli=2000))


@pytest.mark.parametrize("gang", [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("nodes", [(node("n", 2),), (node("m", 1), node("n", 1))])
def test_a_gang_of_five_never_runs_on_two_gpus(gang: Workload, nodes: tuple[Node, ...]) -> None:
    refusal = refused(decide(Snapshot(nodes, (gang,))))["gang"]
    assert refusal.is_final
    assert refusal.reason is Reason.NODE_SIZE
    assert refusal.numbers["places_when_empty"] == 2


def test_gangs_that_fit_the_empty_cluster_wait() -> None:
    gang = Workload("gang", (Subgroup("one", Shape(0, 0, 1, 1000)), *UNLIKE.subgroups[1:4]), "a")
    full = work("full", count=4)
    refusal = refused(decide(Snapshot((node(),), (full, gang))))["gang"]
    assert not refusal.is_final


def test_large_and_small_tasks_together_can_be_too_much() -> None:
    shapes = Shape(0, 0, 4, 1000), Shape(0, 0, 1, 1000)
    gang = Workload("gang", tuple(Subgroup(f"s{at}", each) for at, each in enumerate(shapes)), "a")
    refusal = refused(decide(Snapshot((node(),), (gang,))))["gang"]
    assert refusal.is_final
    assert refusal.numbers["gpu_milli_when_empty"] == 4000


def test_what_is_above_the_limit_of_its_queue_never_runs_and_is_not_ahead() -> None:
    jobs = work("large", count=3), work("runs", count=2, submitted_s=1), work("w", submitted_s=3)
    snapshot = Snapshot((node(),), jobs, (), (LIMITED,))
    found = explain(snapshot, "large")
    assert found.status == "never"
    assert found.sentence == (
        "large cannot run here: by it alone, queue a would have 3 GPUs, and its limit is 2"
    )
    waits = explain(snapshot, "w")
    assert waits.status == "waits"
    assert waits.ahead == ()


def test_no_new_node_helps_against_a_limit() -> None:
    pool = Pool("default", is_dynamic=True, nodes_max=9, template=node())
    snapshot = Snapshot((node(),), (work("large", count=3),), (), (LIMITED,), (pool,))
    assert refused(decide(snapshot))["large"].is_final


def test_a_quota_that_is_larger_at_night_is_waited_for() -> None:
    night = Window(0, 3600, Amounts(gpu_milli=2000))
    queue = Queue("a", quota=Amounts(gpu_milli=1000), windows=(night,))
    at_noon = {"now_s": 43200.0, "queues": (queue,), "nodes": (node(),)}
    two, three = (work("w", count=size, is_preemptible=False) for size in (2, 3))
    for job, is_final in ((two, False), (three, True)):
        refusal = refused(decide(Snapshot(workloads=(job,), **at_noon)))["w"]  # type: ignore[arg-type]
        assert (refusal.reason, refusal.is_final) == (Reason.QUEUE_QUOTA, is_final)


def test_a_limit_of_gpu_memory_is_named() -> None:
    queue = Queue("a", quota=Amounts(), limit=Amounts(gpu_memory_mib=8000))
    refusal = refused(decide(Snapshot((node(),), (work("w"),), queues=(queue,))))["w"]
    assert "16000 MiB of GPU memory, and its limit is 8000" in refusal.text
