"""Who yields to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.decisions import (
    Decision,
    Eviction,
    Move,
    Placement,
    PlacementRefusal,
    Reason,
)
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload

A = Queue("a", quota=Amounts(gpu_milli=2000), created_s=0)
B = Queue("b", quota=Amounts(gpu_milli=2000), created_s=1)


def node(name: str = "n", count: int = 4) -> Node:
    return Node(name, 64000, 1024, gpus(count), "T4", 16000)


def work(
    name: str,
    queue: str = "a",
    count: float = 1,
    tasks: int = 1,
    least: int | None = None,
    **more: float,
) -> Workload:
    shape = Shape(0, 0, max(1, int(count)), 1000 if count >= 1 else round(count * 1000))
    return Workload(
        name,
        (Subgroup("main", shape, tasks, tasks if least is None else least),),
        queue,
        priority=int(more.get("priority", 0)),
        is_preemptible=not more.get("kept"),
        submitted_s=more.get("submitted_s", 0.0),
    )


def runs(
    workload: Workload, *places: tuple[int, ...], on: str = "n", **more: float
) -> list[Running]:
    shape = workload.subgroups[0].shape
    return [
        Running(Task(workload.name, "main", at), shape, Spot(on, place, shape.gpu_milli), **more)  # type: ignore[arg-type]
        for at, place in enumerate(places)
    ]


def evicted(decisions: Sequence[Decision]) -> list[str]:
    return sorted(str(each.task) for each in decisions if isinstance(each, Eviction))


def placed(decisions: Sequence[Decision]) -> list[str]:
    return sorted(str(each.task) for each in decisions if isinstance(each, Placement))


def test_a_queue_takes_back_its_quota_from_who_has_more_than_its_own() -> None:
    ours, old, young = work("ours"), work("old", "b", 2), work("young", "b", 2, submitted_s=1)
    running = runs(old, (0, 1)) + runs(young, (2, 3))
    decisions = decide(Snapshot((node(),), (ours, old, young), tuple(running), (A, B), now_s=9))
    assert evicted(decisions) == ["young/main/0"]
    assert placed(decisions) == ["ours/main/0"]
    [eviction] = [each for each in decisions if isinstance(each, Eviction)]
    assert eviction.for_workload == "ours"
    assert eviction.reason == (
        "reclaimed: queue b has 4 of a fair share of 3 GPUs, its quota is 2; "
        "queue a has 0 of a fair share of 1 GPUs, its quota is 2, and ours waits"
    )


def test_who_is_within_quota_does_not_yield() -> None:
    ours, theirs = work("ours", count=3), work("theirs", "b", 2)
    decisions = decide(Snapshot((node(),), (ours, theirs), tuple(runs(theirs, (0, 1))), (A, B)))
    assert evicted(decisions) == []
    assert placed(decisions) == []


@pytest.mark.parametrize(("sizes", "yields"), [((5,), []), ((4, 1), ["theirs1/main/0"])])
def test_a_unit_does_not_yield_if_its_queue_would_have_less_than_the_one_that_takes(
    sizes: tuple[int, ...], yields: list[str]
) -> None:
    """Queue b has 5 GPUs of a fair share of 4; queue a has 3 and waits for one more."""
    queues = tuple(Queue(name, quota=Amounts(gpu_milli=0)) for name in "ab")
    ours, more = work("ours", tasks=3), work("more", submitted_s=9)
    theirs = [work(f"theirs{at}", "b", size, submitted_s=at) for at, size in enumerate(sizes)]
    running, free = runs(ours, (5,), (6,), (7,)), iter(range(5))
    for each, size in zip(theirs, sizes, strict=True):
        running += runs(each, tuple(next(free) for _ in range(size)))
    snapshot = Snapshot((node(count=8),), (ours, more, *theirs), tuple(running), queues, now_s=9999)
    assert evicted(decide(snapshot)) == yields


def test_what_is_guaranteed_never_yields_and_stays_within_quota() -> None:
    ours, theirs = work("ours"), work("theirs", "b", 4, kept=1)
    decisions = decide(
        Snapshot((node(),), (ours, theirs), tuple(runs(theirs, (0, 1, 2, 3))), (A, B))
    )
    assert evicted(decisions) == []
    three = work("three", count=3, kept=1)
    [refusal] = decide(Snapshot((node(),), (three,), (), (A, B)))
    assert isinstance(refusal, PlacementRefusal)
    assert refusal.reason is Reason.QUEUE_QUOTA
    assert refusal.text == (
        "by it alone, queue a would have 3 GPUs that must not be taken away, and its quota is 2"
    )


def test_an_elastic_gang_shrinks_before_another_ends() -> None:
    ours = work("ours", count=1)
    elastic = work("elastic", "b", 1, tasks=3, least=1)
    young = work("young", "b", 1, submitted_s=5)
    running = runs(elastic, (0,), (1,), (2,)) + runs(young, (3,))
    decisions = decide(Snapshot((node(),), (ours, elastic, young), tuple(running), (A, B), now_s=9))
    assert evicted(decisions) == ["elastic/main/2"]


def test_a_more_important_one_takes_the_place_in_its_queue() -> None:
    urgent = work("urgent", count=2, priority=9)
    low, lower = work("low", count=2, priority=2), work("lower", count=2, priority=1)
    running = runs(low, (0, 1)) + runs(lower, (2, 3))
    snapshot = Snapshot((node(),), (urgent, low, lower), tuple(running), (A, B))
    assert evicted(decide(snapshot)) == ["lower/main/0"]
    equal = work("urgent", count=2, priority=1)
    snapshot = Snapshot((node(),), (equal, low, lower), tuple(running), (A, B))
    assert evicted(decide(snapshot)) == []


def test_others_move_before_anybody_ends_and_within_the_budget() -> None:
    ours = work("ours", count=2)
    first, second = work("first", "b"), work("second", "b", submitted_s=1)
    nodes = (node("x", 2), node("y", 2))
    running = runs(first, (0,), on="x") + runs(second, (0,), on="y")
    snapshot = Snapshot(nodes, (ours, first, second), tuple(running), (A, B), now_s=9)
    decisions = decide(snapshot)
    [move] = [each for each in decisions if isinstance(each, Move)]
    assert (str(move.task), move.source.node, move.target.node) == ("second/main/0", "y", "x")
    assert placed(decisions) == ["ours/main/0"]
    assert evicted(decisions) == []
    assert placed(decide(snapshot, settings=CycleSettings(moves_max=0))) == []


def test_a_plan_that_does_not_work_out_leaves_no_trace() -> None:
    ours = work("ours", count=2, tasks=2)
    kept, theirs = work("kept", "b", 1, kept=1), work("theirs", "b", 2)
    running = runs(kept, (0,)) + runs(theirs, (2, 3))
    decisions = decide(Snapshot((node(),), (ours, kept, theirs), tuple(running), (A, B)))
    assert evicted(decisions) == placed(decisions) == []


def test_a_gang_that_lost_members_ends_if_nobody_gives_them_back() -> None:
    gang, other = work("gang", tasks=2), work("other", "b", kept=1)
    running = [*runs(gang, (0,)), *runs(other, (1,))]
    decisions = decide(Snapshot((node(count=2),), (gang, other), tuple(running), (A, B)))
    assert evicted(decisions) == ["gang/main/0"]
    decisions = decide(Snapshot((node(count=3),), (gang, other), tuple(running), (A, B)))
    assert placed(decisions) == ["gang/main/1"]
    assert evicted(decisions) == []


def test_what_has_run_for_less_than_the_minimum_is_left_alone() -> None:
    ours, theirs = work("ours"), work("theirs", "b", 4)
    running = tuple(runs(theirs, (0, 1, 2, 3), since_s=50.0))
    snapshot = Snapshot((node(),), (ours, theirs), running, (A, B), now_s=60)
    assert evicted(decide(snapshot, settings=CycleSettings(min_run_s=30))) == []
    assert evicted(decide(snapshot, settings=CycleSettings(min_run_s=10))) == ["theirs/main/0"]


def test_a_gang_has_run_as_long_as_its_youngest_task() -> None:
    ours, theirs = work("ours"), work("theirs", "b", tasks=4)
    running = [
        replace(each, since_s=since_s)
        for each, since_s in zip(
            runs(theirs, (0,), (1,), (2,), (3,)), (0.0, 50.0, 0.0, 0.0), strict=True
        )
    ]
    snapshot = Snapshot((node(),), (ours, theirs), tuple(running), (A, B), now_s=60)
    assert evicted(decide(snapshot, settings=CycleSettings(min_run_s=30))) == []
    assert len(evicted(decide(snapshot, settings=CycleSettings(min_run_s=10)))) == 4


def test_a_limit_holds_even_where_there_is_room() -> None:
    tight = Queue("a", quota=Amounts(gpu_milli=1000), limit=Amounts(gpu_milli=1000))
    decisions = decide(Snapshot((node(),), (work("x"), work("y")), (), (tight,)))
    assert placed(decisions) == ["x/main/0"]
    [refusal] = [each for each in decisions if isinstance(each, PlacementRefusal)]
    assert (refusal.reason, refusal.numbers["limit_gpu_milli"]) == (Reason.QUEUE_LIMIT, 1000)


def test_the_refusal_names_the_queue_whose_limit_it_is() -> None:
    parent = Queue("parent", quota=Amounts(), limit=Amounts(gpu_milli=1000))
    child = Queue("a", "parent", quota=Amounts(), limit=Amounts(gpu_milli=3000))
    decisions = decide(Snapshot((node(),), (work("x"), work("y")), (), (parent, child)))
    [refusal] = [each for each in decisions if isinstance(each, PlacementRefusal)]
    assert refusal.text == "queue parent would have 2 GPUs, and its limit is 1"


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (Snapshot((), (work("w", "c"),), (), (A,)), "there is no queue c"),
        (
            Snapshot((), (work("w"),), (), (A, Queue("b", "a"))),
            "in queue a, which only has queues below it: b",
        ),
        (Snapshot((), (), (), (Queue("x", "y"), Queue("y", "x"))), "in a loop"),
        (
            Snapshot((node(),), (work("w"),), tuple(runs(work("w"), (0,)) * 2), (A,)),
            "w/main/0 runs twice",
        ),
        (
            Snapshot((node(),), (), tuple(runs(work("w"), (0,))), (A,)),
            "there is no workload w",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(snapshot: Snapshot, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        decide(snapshot)
