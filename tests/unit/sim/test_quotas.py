"""Gangs of queues within quota get seats, whatever has to move; and every round comes to an end."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.policy.model.queues import Amounts, Queue
from moiety.sim.by_queue import QuotaWatch, queues_by_use
from moiety.sim.engine import Engine
from moiety.sim.fair_use import FairWatch
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.outcome import run_gangs
from moiety.sim.runs import GpuPool, RestartCost, Run, replay
from moiety.sim.seats import Nodes


def queue(name: str, gpus: int) -> Queue:
    return Queue(name, quota=Amounts(gpu_milli=gpus * 1000), weight=max(gpus, 1))


def run(number: int, gpus: int, *seats: tuple[int, int]) -> Run:
    found = Run(GangJob(str(number), gpus, 0, 100, "q"), number, 100)
    found.seats, found.is_running = tuple(seats), bool(seats)
    return found


def test_two_of_one_queue_within_quota_do_not_stop_each_other_for_ever() -> None:
    """In the place of the 4 GPUs of b the 3 would run, being worth more: then 4 are within quota.

    Without a bound on how often one is stopped, the round at 9,000 s has no end.
    """
    rows = [
        (0, 4, 9000, "a"),
        (0, 4, 100000, "b"),
        (3600, 6, 9000, "a"),
        (9000, 1, 600, "b"),
        (9000, 2, 100000, "a"),
        (9000, 3, 600, "b"),
    ]
    gangs = tuple(GangJob("", gpus, at, lasts, name) for at, gpus, lasts, name in rows)
    queues = (queue("a", 8), queue("b", 8))
    watch = QuotaWatch(queues)
    runs, _ = replay(GangTrace("t", gangs, (8, 8)), Engine(queues), RestartCost(30.0), watch=watch)
    assert all(each.is_over for each in runs)
    assert watch.broken == 0


def test_where_stopping_one_by_one_finds_no_room_those_within_quota_get_seats_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moiety.policy.cycle.outrank", lambda *_: None)
    rows = [(0, 3, 100), (0, 3, 100), (10, 1, 90000), (10, 1, 90000), (200, 4, 60)]
    gangs = tuple(GangJob("", gpus, at, lasts, "a") for at, gpus, lasts in rows)
    runs, _ = replay(GangTrace("t", gangs, (4, 4)), Engine([queue("a", 8)]), RestartCost(30.0))
    assert [each.preemptions for each in runs] in ([0, 0, 1, 0, 0], [0, 0, 0, 1, 0])
    assert runs[4].began_s == 200


def test_a_gang_that_still_loads_what_it_had_stopped_with_yields_to_quota_too() -> None:
    """At 63 s the 8 GPUs of b, beyond quota, are in the way of the 16 of a; they began at 62 s."""
    rows = [
        *[(0, 1, 1, "a")] * 15,
        (0, 1, 2, "a"),
        (0, 1, 64, "c"),
        (0, 8, 2, "b"),
        (0, 16, 61, "a"),
        (62, 8, 1, "a"),
    ]
    gangs = tuple(GangJob("", gpus, at, lasts, name) for at, gpus, lasts, name in rows)
    queues = (queue("a", 16), queue("b", 7), queue("c", 1))
    found = run_gangs(GangTrace("t", gangs, (8, 8, 8)), "default", RestartCost(30.0), queues=queues)
    assert found.quota_broken == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 4, 8, 16]),
            st.sampled_from("abc"),
            st.integers(0, 20000),
            st.integers(1, 20000),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_quotas_hold_at_every_moment_for_sizes_that_pack(
    rows: list[tuple[int, str, int, int]],
) -> None:
    rows.sort(key=lambda row: row[2])
    gangs = tuple(GangJob("", gpus, at, lasts, name) for gpus, name, at, lasts in rows)
    queues = (queue("a", 16), queue("b", 7), queue("c", 1))
    found = run_gangs(GangTrace("t", gangs, (8, 8, 8)), "default", RestartCost(30.0), queues=queues)
    assert found.quota_broken == 0


def test_a_queue_that_waits_for_what_is_due_is_told_from_one_that_waits_for_more() -> None:
    watch = FairWatch((queue("a", 4), queue("b", 4)))
    pool = GpuPool(Nodes((4, 4)), RestartCost())
    pool.held = Counter({"a": 6, "b": 2})
    pool.asked = Counter({"a": 100, "b": 2})
    pool.waiting = {0: run(0, 2)}
    watch(pool)
    pool.now_s = 10
    watch(pool)
    assert watch.at_each_moment() == {"a": 1, "b": pytest.approx(0.5)}
    assert watch.over_the_run() == {"a": 1, "b": pytest.approx(0.5)}


def test_a_turn_makes_good_for_waiting_over_the_run_but_not_at_each_moment() -> None:
    watch = FairWatch((queue("a", 6), queue("b", 2)))
    pool = GpuPool(Nodes((4, 4)), RestartCost())
    pool.held = Counter({"a": 8})
    pool.asked = Counter({"a": 100, "b": 8})
    pool.waiting = {0: run(0, 8)}
    watch(pool)
    pool.now_s = 30
    pool.held = Counter({"b": 8})
    watch(pool)
    pool.now_s = 40
    watch(pool)
    assert watch.over_the_run() == {"a": 1, "b": 1}
    assert watch.at_each_moment() == {"a": pytest.approx(0.75), "b": pytest.approx(0.25)}


def test_a_queue_that_used_next_to_nothing_has_a_quota_too() -> None:
    gangs = (GangJob("", 1, 0, 1, "little"), GangJob("", 8, 0, 99999, "much"))
    found = {each.name: each.quota.gpu_milli for each in queues_by_use(GangTrace("t", gangs, (8,)))}
    assert found == {"little": 1000, "much": 7000}


def test_a_gang_larger_than_what_is_due_begins_once_its_queue_has_the_credit_for_a_turn() -> None:
    """Of 8 GPUs 3.5 are due to a: its quota of 2 and a quarter of the rest. The turn is an hour."""
    queues = (
        Queue("a", quota=Amounts(gpu_milli=2000), weight=1),
        Queue("b", quota=Amounts(gpu_milli=0), weight=3),
    )
    singles = tuple(GangJob("", 1, 0, 500_000, "b") for _ in range(24))
    gangs = (*singles, GangJob("wide", 8, 60, 7200, "a"))
    runs, _ = replay(GangTrace("t", gangs, (8,)), Engine(queues), RestartCost(30.0))
    [wide] = [each for each in runs if each.gang.name]
    assert wide.began_s is not None
    assert 8 * 3600 / 3.5 < wide.began_s < 8 * 3600 / 3.5 + 3600 + 660
