from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.model.errors import InternalError, InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.model.cluster import Node, Placing, Pool, gpus
from moiety.policy.model.decisions import Decision, Placement, PlacementRefusal, Reason
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload, single

WHOLE = Shape(1000, 0, 1, 1000)
HALF = Shape(1000, 0, 1, 500)
FOUR = Shape(1000, 0, 4, 1000)


def node(name: str, count: int = 2, pool: str = "default") -> Node:
    return Node(name, 16000, 1024, gpus(count), "T4", pool=pool)


def gang(name: str, tasks: int, least: int | None = None, **more: float) -> Workload:
    workers = Subgroup("main", WHOLE, tasks, tasks if least is None else least)
    return Workload(name, (workers,), submitted_s=more.get("submitted_s", 0.0))


def placed(decisions: Sequence[Decision]) -> list[str]:
    return [str(each.task) for each in decisions if isinstance(each, Placement)]


def refused(decisions: Sequence[Decision]) -> list[PlacementRefusal]:
    return [each for each in decisions if isinstance(each, PlacementRefusal)]


def test_pending_workloads_get_places_and_their_names() -> None:
    decisions = decide(Snapshot((node("a"),), (single("w", HALF),)))
    assert decisions == [Placement(Task("w", "main", 0), Spot("a", (0,), 500))]


def test_what_runs_keeps_its_place() -> None:
    running = Running(Task("w", "main", 0), WHOLE, Spot("a", (1,), 1000))
    snapshot = Snapshot((node("a"),), (single("w", WHOLE), single("x", WHOLE)), (running,))
    assert decide(snapshot) == [Placement(Task("x", "main", 0), Spot("a", (0,), 1000))]


def test_a_gang_is_whole_or_absent_and_leaves_no_trace() -> None:
    three, two = gang("big", 3), gang("small", 2, submitted_s=1)
    decisions = decide(Snapshot((node("a"),), (three, two)))
    assert placed(decisions) == ["small/main/0", "small/main/1"]
    [refusal] = refused(decisions)
    assert (refusal.task.workload, refusal.reason) == ("big", Reason.NODE_SIZE)
    assert refusal.is_final


def test_an_elastic_gang_gets_what_there_is_above_its_least() -> None:
    decisions = decide(Snapshot((node("a", 3),), (gang("e", 5, least=2),)))
    assert len(placed(decisions)) == 3
    assert refused(decisions)[0].task == Task("e", "main", 3)


def test_a_gang_that_lost_members_needs_only_those() -> None:
    running = Running(Task("e", "main", 1), WHOLE, Spot("a", (0,), 1000))
    decisions = decide(Snapshot((node("a"),), (gang("e", 2),), (running,)))
    assert placed(decisions) == ["e/main/0"]


def test_priority_goes_before_age_and_age_before_the_name() -> None:
    old, young = single("b", WHOLE, 1), single("a", WHOLE, 2)
    urgent = Workload("z", (Subgroup("main", WHOLE),), priority=5, submitted_s=9)
    decisions = decide(Snapshot((node("a"),), (young, old, urgent)))
    assert placed(decisions) == ["z/main/0", "b/main/0"]


def test_each_pool_has_its_own_rule() -> None:
    nodes = [node(f"{pool}{at}", 2, pool) for pool in ("packed", "wide") for at in range(2)]
    pools = (Pool("packed", Placing.BIN_PACK), Pool("wide", Placing.SPREAD))
    workloads = [
        Workload(f"{pool}{at}", (Subgroup("main", WHOLE),), pools=frozenset({pool}))
        for pool in ("packed", "wide")
        for at in range(2)
    ]
    decisions = decide(Snapshot(tuple(nodes), tuple(workloads), pools=pools))
    spots = [each.spot.node for each in decisions if isinstance(each, Placement)]
    assert spots == ["packed0", "packed0", "wide0", "wide1"]


def test_the_next_pool_takes_what_the_first_has_no_room_for() -> None:
    nodes = (node("a", 1, "x"), node("b", 1, "y"))
    snapshot = Snapshot(
        nodes, tuple(single(f"w{at}", WHOLE) for at in range(3)), pools=(Pool("x"), Pool("y"))
    )
    decisions = decide(snapshot)
    assert len(placed(decisions)) == 2
    assert not refused(decisions)[0].is_final
    lost = Workload("lost", (Subgroup("main", WHOLE),), pools=frozenset({"z"}))
    [refusal] = refused(decide(Snapshot(nodes, (lost,), pools=(Pool("x"), Pool("y")))))
    assert (refusal.text, refusal.is_final) == ("there is no pool z", True)


def test_a_snapshot_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(InvalidValue, match="of pool x, which is not there"):
        decide(Snapshot((node("a", pool="x"),)))
    lost = Running(Task("w", "main", 0), WHOLE, Spot("b", (0,), 1000))
    with pytest.raises(InvalidValue, match="runs on b, which is not there"):
        decide(Snapshot((node("a"),), (gang("w", 2),), (lost,)))
    both = [Running(Task("w", "main", at), WHOLE, Spot("a", (0,), 1000)) for at in range(2)]
    with pytest.raises(InternalError, match="GPU 0 of a"):
        decide(Snapshot((node("a"),), (gang("w", 2),), tuple(both)))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=6),
)
def test_nothing_is_ever_given_twice_and_no_gang_starts_in_part(
    counts: list[int], gangs: list[tuple[int, int]]
) -> None:
    nodes = tuple(node(f"n{at}", count) for at, count in enumerate(counts) if count)
    workloads = tuple(
        gang(f"g{at}", tasks, min(least, tasks)) for at, (tasks, least) in enumerate(gangs)
    )
    decisions = decide(Snapshot(nodes, workloads))
    assert decisions == decide(Snapshot(nodes[::-1], workloads[::-1]))
    spots = [each.spot for each in decisions if isinstance(each, Placement)]
    taken = [(spot.node, gpu) for spot in spots for gpu in spot.gpus]
    assert len(taken) == len(set(taken)) <= sum(counts)
    for workload in workloads:
        got = sum(name.startswith(f"{workload.name}/") for name in placed(decisions))
        assert got == 0 or workload.subgroups[0].tasks_min <= got <= workload.tasks
        if got < workload.tasks:
            assert [each for each in refused(decisions) if each.task.workload == workload.name]


def test_all_of_a_kind_begin_beside_what_is_kept_for_a_large_piece() -> None:
    """None of them is known to end in time: they begin on the other nodes, and not only one."""
    long, wide = single("long", WHOLE), Workload("wide", (Subgroup("main", FOUR),))
    small = [single(f"s{at}", WHOLE, 900.0) for at in range(4)]
    running = Running(Task("long", "main", 0), WHOLE, Spot("m", (0,), 1000))
    snapshot = Snapshot(
        (node("m", 4), node("n", 3)), (long, wide, *small), (running,), now_s=1000.0
    )
    decisions = decide(snapshot)
    assert placed(decisions) == ["s0/main/0", "s1/main/0", "s2/main/0"]
    assert all(each.spot.node == "n" for each in decisions if isinstance(each, Placement))
