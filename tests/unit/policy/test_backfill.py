"""Room is kept for work that has waited long, and for no more than it needs."""

from __future__ import annotations

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain
from moiety.policy.model.decisions import Reason
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from tests.unit.policy.build import node, placed, refused, runs, work

ALL = Queue("a", quota=Amounts(gpu_milli=8000))
STILL = CycleSettings(moves_max=0)
PAIR = work("pair", count=2)


def notebooks(*late: Workload) -> Snapshot:
    """Eight GPUs with a notebook on each; `pair` has waited for two of them."""
    have = [work(f"nb{at}", count=0.1) for at in range(8)]
    running = [each for at, one in enumerate(have) for each in runs(one, (at,), since_s=-86400.0)]
    work_ = (*have, PAIR, *late)
    return Snapshot((node(count=8),), work_, tuple(running), (ALL,), now_s=700.0)


def asks(name: str, shape: Shape) -> Workload:
    return Workload(name, (Subgroup("main", shape),), "a", submitted_s=700.0)


def test_small_work_begins_beside_the_gpus_that_are_kept() -> None:
    snapshot = notebooks(work("small", count=0.5, submitted_s=700.0))
    assert explain(snapshot, "small", settings=STILL).status == "begins"
    spot = placed(decide(snapshot, settings=STILL))["small/main/0"]
    assert spot.gpus[0] > 1  # 0 and 1 become free first, and are kept


def test_the_gpus_that_are_kept_are_not_given_to_others() -> None:
    many = [work(f"s{at}", count=0.9, submitted_s=700.0) for at in range(8)]
    decisions = decide(notebooks(*many), settings=STILL)
    assert len(placed(decisions)) == 6
    assert {refusal.reason for name, refusal in refused(decisions).items() if name != "pair"} == {
        Reason.RESERVED
    }


def test_cpus_that_the_kept_work_needs_are_kept_too() -> None:
    """`wide` will have two GPUs and 60 of the 64 CPUs: others begin beside it with the rest."""
    have = work("have", count=2)
    wide = Workload("wide", (Subgroup("main", Shape(60000, 0, 2, 1000)),), "a")
    late = (
        asks("l0", Shape(3000, 0, 1, 300)),
        asks("l1", Shape(1000, 0)),
        asks("l2", Shape(1000, 0, 1, 300)),  # a CPU too much
        asks("l3", Shape(0, 0, 1, 300)),
    )
    running = tuple(runs(have, (0, 1), since_s=0.0))
    snapshot = Snapshot((node(count=3),), (have, wide, *late), running, (ALL,), now_s=710.0)
    decisions = decide(snapshot, settings=STILL)
    assert sorted(placed(decisions)) == ["l0/main/0", "l1/main/0", "l3/main/0"]
    assert refused(decisions)["l2"].reason is Reason.RESERVED


def test_part_of_a_gpu_is_kept_and_the_rest_is_not() -> None:
    """The gang will have 0.6 of each of two GPUs: 0.4 of each can be used meanwhile."""
    have = work("have", count=0.5, tasks=2)
    gang = work("gang", count=0.6, tasks=2)
    small = work("small", count=0.4, submitted_s=700.0)
    large = work("large", count=0.5, submitted_s=700.0)
    running = tuple(runs(have, (0,), (1,), since_s=0.0))
    snapshot = Snapshot((node(count=2),), (have, gang, small, large), running, (ALL,), now_s=710.0)
    decisions = decide(snapshot, settings=STILL)
    assert list(placed(decisions)) == ["small/main/0"]
    assert refused(decisions)["large"].reason is Reason.RESERVED


def test_kept_gpus_stay_the_same_while_work_comes_and_goes() -> None:
    """Work that has just begun is expected to end first, but not waited for instead of the old."""
    old = work("old", count=0.5)
    young = [work(f"y{at}", count=0.5, submitted_s=600.0) for at in range(6)]
    running = (
        *runs(old, (0,), since_s=0.0),
        *(each for at, one in enumerate(young) for each in runs(one, (1 + at // 2,), since_s=1e4)),
    )
    late = work("late", count=0.5, submitted_s=1e4)
    whole = work("whole", count=2)
    snapshot = Snapshot(
        (node(),), (old, *young, whole, late), tuple(running), (ALL,), now_s=1e4 + 60
    )
    refusal = refused(decide(snapshot, settings=STILL))["late"]
    assert refusal.reason is Reason.RESERVED
