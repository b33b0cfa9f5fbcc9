"""Gangs of queues within quota get seats, whatever has to move; and every round comes to an end."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.policy.model.queues import Amounts, Queue
from moiety.sim.by_queue import QuotaWatch, queues_by_use
from moiety.sim.fair_use import FairWatch
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.outcome import run_gangs
from moiety.sim.repack import repack
from moiety.sim.runs import GpuPool, RestartCost, Run, replay
from moiety.sim.seats import Nodes, Seats
from moiety.sim.tenants import Tenants


def queue(name: str, gpus: int) -> Queue:
    return Queue(name, quota=Amounts(gpu_milli=gpus * 1000), weight=max(gpus, 1))


def run(number: int, gpus: int, *seats: tuple[int, int]) -> Run:
    found = Run(GangJob(str(number), gpus, 0, 100, "q"), number, 100)
    found.seats, found.is_running = tuple(seats), bool(seats)
    return found


def planned(sizes: tuple[int, ...], must: list[Run], others: list[Run]) -> dict[int, Seats] | None:
    nodes = Nodes(sizes)
    for each in (*must, *others):
        nodes.take(each.seats)
    plan = repack(nodes, must, others, {each.number: each.number for each in others})
    if plan is None:
        return None
    for each in plan.stops:
        nodes.give_back(each.seats)
    for _, seats in plan.starts:
        nodes.take(seats)
    assert all(0 <= free <= size for free, size in zip(nodes.free, sizes, strict=True))
    stopped = {each.number for each in plan.stops}
    stayed = {r.number: r.seats for r in (*must, *others) if r.seats and r.number not in stopped}
    return stayed | {each.number: seats for each, seats in plan.starts}


def test_who_can_stay_stays_and_only_others_make_room() -> None:
    seats = planned((4, 4), [run(0, 2, (0, 2)), run(1, 4)], [run(2, 2, (1, 2))])
    assert seats == {0: ((0, 2),), 1: ((1, 4),), 2: ((0, 2),)}


def test_those_within_quota_move_together_if_they_are_spread() -> None:
    seats = planned((4, 4), [run(0, 2, (0, 2)), run(1, 2, (1, 2)), run(2, 4)], [])
    assert seats is not None
    assert sorted(seats) == [0, 1, 2]
    assert seats[0][0][0] == seats[1][0][0] != seats[2][0][0]


def test_what_does_not_fit_together_is_left_as_it_is() -> None:
    assert planned((4, 4), [run(0, 3, (0, 3)), run(1, 3, (1, 3)), run(2, 2)], []) is None


def test_of_the_others_those_of_least_value_are_left_out() -> None:
    others = [run(1, 4, (0, 4)), run(2, 4, (1, 4))]
    seats = planned((4, 4), [run(0, 4)], others)
    assert seats is not None
    assert sorted(seats) == [0, 2]


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
    runs, _ = replay(GangTrace("t", gangs, (8, 8)), Tenants(queues), RestartCost(30.0), watch=watch)
    assert all(each.is_over for each in runs)
    assert watch.broken == 0


def test_where_stopping_one_by_one_finds_no_room_those_within_quota_get_seats_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moiety.sim.tenants.clear", lambda *_: None)
    rows = [(0, 3, 100), (0, 3, 100), (10, 1, 90000), (10, 1, 90000), (200, 4, 60)]
    gangs = tuple(GangJob("", gpus, at, lasts, "a") for at, gpus, lasts in rows)
    runs, _ = replay(GangTrace("t", gangs, (4, 4)), Tenants([queue("a", 8)]), RestartCost(30.0))
    assert [each.preemptions for each in runs] in ([0, 0, 1, 0, 0], [0, 0, 0, 1, 0])
    assert runs[4].began_s == 200


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
