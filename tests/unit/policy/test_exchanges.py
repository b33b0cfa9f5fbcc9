"""A gang that is larger than what is due to its queue yields, but not often, and not for little."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moiety.policy.cycle import decide
from moiety.policy.model.decisions import Eviction
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.sim.scenario import after
from tests.unit.policy.build import evicted, node, placed, runs, work

HOUR = 3600.0
QUEUES = tuple(Queue(name, quota=Amounts(gpu_milli=0)) for name in "ab")


def held_by_a_gang(now_s: float, tasks: int = 1) -> Snapshot:
    """Queue b has all 8 GPUs with one gang; jobs of 1 and 4 GPUs of queue a wait."""
    gang = work("gang", "b", 8 // tasks, tasks)
    size = 8 // tasks
    places = [tuple(range(at * size, (at + 1) * size)) for at in range(tasks)]
    waits = work("small", submitted_s=5), work("large", count=4, submitted_s=6)
    return Snapshot(
        (node(count=8),), (gang, *waits), tuple(runs(gang, *places)), QUEUES, now_s=now_s
    )


@pytest.mark.parametrize("tasks", [1, 8])
def test_what_is_due_is_given_back_by_a_gang_that_cannot_yield_in_part(tasks: int) -> None:
    snapshot = held_by_a_gang(HOUR, tasks)
    decisions = decide(snapshot)
    assert len(evicted(decisions)) == tasks
    later = after(snapshot, decisions)
    later = after(later, decide(later))
    assert {each.task.workload for each in later.running} == {"small", "large"}
    assert evicted(decide(later)) == []


def test_it_has_run_for_a_turn_before() -> None:
    assert evicted(decide(held_by_a_gang(HOUR - 1))) == []


def test_two_queues_exchange_at_most_once_an_hour() -> None:
    snapshot = held_by_a_gang(HOUR)
    decisions = decide(snapshot)
    [exchange] = {each.exchange for each in decisions if isinstance(each, Eviction)}
    assert exchange == ("a", "b")
    assert after(snapshot, decisions).exchanged_s == {("a", "b"): HOUR}
    again = replace(snapshot, exchanged_s={("a", "b"): 1.0})
    assert evicted(decide(again)) == []
    assert evicted(decide(replace(again, now_s=HOUR + 1))) == ["gang/main/0"]


def test_credit_for_a_turn_is_kept() -> None:
    snapshot = replace(held_by_a_gang(HOUR), credit={"b": 60.0, "a": -60.0})
    assert evicted(decide(snapshot)) == []
    assert evicted(decide(replace(snapshot, credit={"b": -60.0, "a": -60.0}))) == ["gang/main/0"]


def test_what_became_free_is_used_in_the_same_cycle() -> None:
    """The small job was tried before there was room; it begins beside the one that made room."""
    snapshot = held_by_a_gang(HOUR)
    young = tuple(replace(each, submitted_s=HOUR - 60) for each in snapshot.workloads)
    found = placed(decide(replace(snapshot, workloads=young)))
    assert set(found) == {"small/main/0", "large/main/0"}


def test_two_queues_in_debt_do_not_take_the_same_room_from_each_other_for_ever() -> None:
    """Both are within their fair share of 2; c, with 3, cannot yield. One GPU is for a or b."""
    stays = work("stays", "c", 3, is_preemptible=False)
    one, other = work("one", "a"), work("other", "a", submitted_s=1)
    two = work("two", "b", tasks=2, least=1)
    snapshot = Snapshot(
        (node(count=6),),
        (stays, one, other, two),
        (*runs(stays, (0, 1, 2)), *runs(one, (3,)), *runs(two, (4,), (5,))),
        tuple(Queue(name, quota=Amounts(gpu_milli=0)) for name in "abc"),
        now_s=HOUR,
        credit={"a": -100.0, "b": -100.0 - HOUR},
    )
    decisions = decide(snapshot)
    assert evicted(decisions) == ["two/main/1"]
    assert evicted(decide(after(snapshot, decisions))) == []
    assert evicted(decide(replace(snapshot, credit={"a": -100.0, "b": -99.0 - HOUR}))) == []
