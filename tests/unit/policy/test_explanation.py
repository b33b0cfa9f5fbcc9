"""Why a workload waits, until when, who is ahead, and who would have to end or move for it."""

from __future__ import annotations

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain, what_if
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from tests.unit.policy.build import A, B, evicted, node, placed, runs, work

ALL = Queue("a", quota=Amounts())


def full() -> Snapshot:
    """Two jobs of one queue have a GPU each of four, and one of another has the rest."""
    have = [work("old"), work("young", submitted_s=1), work("b", "b", 2)]
    running = (
        *runs(have[0], (0,), since_s=10.0),
        *runs(have[1], (1,), since_s=80.0),
        *runs(have[2], (2, 3), since_s=40.0),
    )
    return Snapshot((node(),), tuple(have), running, (A, B), now_s=100.0)


def waits(snapshot: Snapshot, *more: object) -> Snapshot:
    return Snapshot(
        snapshot.nodes,
        (*snapshot.workloads, *more),  # type: ignore[arg-type]
        snapshot.running,
        snapshot.queues,
        now_s=100.0,
    )


def test_who_waits_is_told_who_is_ahead_and_who_would_have_to_end() -> None:
    snapshot = waits(full(), work("first", submitted_s=2), work("second", submitted_s=3))
    known = CycleSettings(
        runtimes=lambda workload: {"old": 150.0, "young": 300.0}.get(workload.name)
    )
    found = explain(snapshot, "second", settings=known)
    assert found.status == "waits"
    assert found.ahead == ("first",)
    assert [str(task) for task in found.end] == ["young/main/0"]
    assert found.start is not None
    # b ends at 160 with two GPUs, for both
    assert (found.start.expected_s, found.start.earliest_s) == (60, 20)
    assert found.sentence.startswith(
        "second waits: the only node cannot take 1 GPU now: "
        "it has too little of its GPUs left; queue a has 2 of a fair share of 2 GPUs, "
        "its quota is 2; 1 is ahead of it; it would have room if young/main/0 ended; "
        "it starts in 20 s to 3 min, most likely 1 min"
    )


def test_what_it_names_makes_room_when_it_is_gone() -> None:
    snapshot = waits(full(), work("wide", count=3))
    found = explain(snapshot, "wide")
    gone = {task.workload for task in found.end}
    assert gone
    rest = Snapshot(
        snapshot.nodes,
        tuple(each for each in snapshot.workloads if each.name not in gone),
        tuple(each for each in snapshot.running if each.task not in found.end),
        (ALL, Queue("b", quota=Amounts())),
        now_s=100.0,
    )
    assert "wide/main/0" in placed(decide(rest))


def test_what_begins_names_who_yields_for_it() -> None:
    snapshot = waits(full(), work("urgent", priority=9))
    found = explain(snapshot, "urgent")
    assert (found.status, [str(task) for task in found.end]) == ("begins", ["young/main/0"])
    assert found.sentence == "urgent begins now with 1 of 1 tasks on n; young/main/0 ends for it"
    assert evicted(decide(snapshot)) == ["young/main/0"]


def test_what_would_be_is_told_before_it_is_submitted() -> None:
    found = what_if(full(), work("urgent", priority=9))
    assert found.status == "begins"
    found = what_if(full(), work("huge", count=5))
    assert found.status == "never"
    assert found.sentence.startswith(
        "huge cannot run here: the only node can never take 5 GPUs: "
        "it is too small even when empty; it has 4 GPUs"
    )
    assert what_if(full(), work("late")).status == "waits"


def test_what_runs_runs() -> None:
    assert explain(full(), "old").sentence == "old runs with 1 of 1 tasks"
    elastic = work("elastic", "b", tasks=3, least=1)
    snapshot = Snapshot((node(count=1),), (elastic,), tuple(runs(elastic, (0,))), (A, B))
    found = explain(snapshot, "elastic")
    assert found.status == "runs"
    assert found.sentence.startswith(
        "elastic runs with 1 of 3 tasks; for more of them, the only node cannot take"
    )


def test_who_could_move_is_named_instead_of_who_could_end() -> None:
    first, second = work("first", "b"), work("second", "b", submitted_s=1)
    nodes = (node("x", 2), node("y", 2))
    running = (*runs(first, (0,), on="x"), *runs(second, (0,), on="y"))
    snapshot = Snapshot(nodes, (first, second, work("wide", count=2)), running, (A, B))
    found = explain(snapshot, "wide", settings=CycleSettings(moves_max=0))
    assert [str(task) for task in found.move] == ["second/main/0"]
    assert found.end == ()
    assert "it would have room if second/main/0 moved" in found.sentence


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidValue, match="there is no workload x"):
        explain(full(), "x")


def test_a_gang_that_yields_an_extra_task_goes_on() -> None:
    grown, new = work("grown", tasks=4, least=1), work("new", "b")
    running = tuple(runs(grown, (0,), (1,), (2,), (3,)))
    found = explain(Snapshot((node(),), (grown, new), running, (A, B)), "grown")
    assert found.status == "runs"
    assert found.sentence.startswith(
        "grown goes on with 3 of 4 tasks; grown/main/3 ends: reclaimed: "
    )
    assert [task.index for task in found.end] == [3]
    assert [task.index for task, _ in found.spots] == [0, 1, 2]


def test_a_gang_that_gets_a_further_task_ran_before() -> None:
    grows = work("grows", tasks=4, least=1)
    running = tuple(runs(grows, (0,), (1,), (2,)))
    found = explain(Snapshot((node(),), (grows,), running, (A, B)), "grows")
    assert found.status == "runs"
    assert found.sentence == "grows runs with 3 of 4 tasks; 1 more begins now on n"
    assert len(found.spots) == 4


def test_work_that_has_had_its_time_ends_for_good() -> None:
    late = work("late", max_run_s=10.0)
    running = tuple(runs(late, (0,), since_s=0.0))
    found = explain(Snapshot((node(),), (late,), running, (A, B), now_s=50.0), "late")
    assert (found.status, found.sentence) == (
        "ends",
        "late ends for good: it has run for 50 s, and may for 10",
    )


def test_work_that_yields_as_a_whole_waits() -> None:
    low, high = work("low", count=4), work("high", count=4, priority=9)
    found = explain(Snapshot((node(),), (low, high), tuple(runs(low, (0, 1, 2, 3)))), "low")
    assert found.status == "waits"
    assert found.sentence == "low ends: preempted: high has priority 9, low 0"
