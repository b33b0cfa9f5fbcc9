"""Work that is worth much more takes the place of other work of its queue and priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from moiety.policy.cycle import Cycle, decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.memory import Began, Passed, PolicyMemory, Stopped, Submitted, learn
from moiety.policy.model.decisions import CyclePlan, Eviction
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from tests.unit.policy.build import evicted, moved, node, placed, runs, work

HOUR = 3600.0
QUEUES = tuple(Queue(name, quota=Amounts()) for name in "ab")
STILL = CycleSettings(moves_max=0, reservations=0)


def after_a_day(
    waits: Sequence[Workload],
    *running: tuple[Workload, list[Running], float],
    settings: CycleSettings = STILL,
    **more: Any,
) -> CyclePlan:
    """Decide while `running` work has run, each for its time; nothing is known of others."""
    now_s, memory = 24 * HOUR, PolicyMemory()
    for workload, _, _ in running:
        learn(memory, Submitted(workload))
    for workload, _, run_s in running:
        learn(memory, Began(workload.name, now_s - run_s))
    for workload in waits:
        learn(memory, Submitted(workload))
    learn(memory, Passed(now_s))
    there = tuple(each for _, found, _ in running for each in found)
    all_ = (*waits, *(workload for workload, _, _ in running))
    nodes = more.pop("nodes", (node(),))
    queues = more.pop("queues", QUEUES)
    snapshot = Snapshot(nodes, all_, there, queues, now_s=now_s, **more)
    return decide(snapshot, settings=settings, memory=memory)


def new(name: str = "new", count: int = 4, **more: Any) -> Workload:
    return work(name, count=count, submitted_s=24 * HOUR, **more)


def old(name: str = "old", count: int = 4, **more: Any) -> Workload:
    return work(name, count=count, submitted_s=0, **more)


def test_new_work_takes_the_place_of_work_that_has_run_for_long() -> None:
    gone = old()
    plan = after_a_day([new()], (gone, runs(gone, (0, 1, 2, 3)), 24 * HOUR))
    assert evicted(plan) == ["old/main/0"]
    assert set(placed(plan)) == {"new/main/0"}
    [eviction] = [each for each in plan if isinstance(each, Eviction)]
    assert eviction.for_workload == "new"
    assert "a GPU-second is worth" in eviction.reason
    assert plan.look_s == 24 * HOUR


@pytest.mark.parametrize(("quota_gpus", "is_at_once"), [(4, False), (8, True)])
def test_work_that_has_just_yielded_takes_room_beyond_its_quota_a_moment_later(
    quota_gpus: int, is_at_once: bool
) -> None:
    """Else two pieces of work could take the same room from each other at one moment, for ever."""
    now_s, memory, gone, back = 24 * HOUR, PolicyMemory(), old(), old("back")
    learn(memory, Submitted(gone))
    learn(memory, Began("old", 0.0))
    learn(memory, Passed(now_s - 60))
    learn(memory, Submitted(back))
    learn(memory, Began("back", now_s - 60))
    learn(memory, Passed(now_s))
    learn(memory, Stopped("back", 60.0))
    queues = (Queue("a", quota=Amounts(gpu_milli=1000 * quota_gpus)),)
    there = tuple(runs(gone, (0, 1, 2, 3)))
    snapshot = Snapshot((node(),), (gone, back), there, queues, now_s=now_s)
    plan = decide(snapshot, settings=STILL, memory=memory)
    assert bool(evicted(plan)) is is_at_once
    fork = memory.fork()
    assert bool(evicted(decide(snapshot, settings=STILL, memory=fork))) is is_at_once
    learn(memory, Passed(now_s + 1))
    plan = decide(replace(snapshot, now_s=now_s + 1), settings=STILL, memory=memory)
    assert evicted(plan) == ["old/main/0"]


@pytest.mark.parametrize(
    ("waits", "run_s"),
    [
        (new(), 60.0),
        (new(queue="b"), 24 * HOUR),
        (new(priority=-1), 24 * HOUR),
    ],
    ids=["little more", "another queue", "another priority"],
)
def test_it_does_not_for_little_nor_beyond_its_queue_and_priority(
    waits: Workload, run_s: float
) -> None:
    runs_on = old()
    plan = after_a_day([waits], (runs_on, runs(runs_on, (0, 1, 2, 3)), run_s))
    assert evicted(plan) == []
    assert plan.look_s is not None
    assert plan.look_s > 24 * HOUR


def test_the_least_worth_is_lost() -> None:
    """Node m has one job of four GPUs that has run for a day, node n four that have for an hour."""
    large, small = old("large"), [old(f"small{at}", 1) for at in range(4)]
    running = [(large, runs(large, (0, 1, 2, 3), on="m"), 24 * HOUR)]
    running += [(job, runs(job, (at,)), HOUR) for at, job in enumerate(small)]
    plan = after_a_day([new("new", 1)], *running, nodes=(node("m"), node("n")))
    assert evicted(plan) == ["large/main/0"]


def test_work_that_need_not_end_for_the_room_goes_on() -> None:
    jobs = [old(f"old{at}", count) for at, count in enumerate((1, 3))]
    running = [(jobs[0], runs(jobs[0], (0,)), 24 * HOUR)]
    running += [(jobs[1], runs(jobs[1], (1, 2, 3)), 12 * HOUR)]
    assert evicted(after_a_day([new("new", 3)], *running)) == ["old1/main/0"]


def test_a_gang_on_two_nodes_makes_room_for_one_on_two_nodes() -> None:
    gang = old("old", 4, tasks=2)
    here = runs(gang, (0, 1, 2, 3), (0, 1, 2, 3), on="m")
    here[1] = replace(here[1], spot=here[1].spot._replace(node="n"))
    waits = Workload(
        "new", (Subgroup("of-4", Shape(0, 0, 4, 1000), 2, 2),), "a", submitted_s=24 * HOUR
    )
    nodes = (node("m"), node("n"))
    plan = after_a_day([waits], (gang, here, 24 * HOUR), nodes=nodes)
    assert evicted(plan) == ["old/main/0", "old/main/1"]
    assert set(placed(plan)) == {"new/of-4/0", "new/of-4/1"}


def test_work_that_waits_is_served_by_worth() -> None:
    waits = [work("large", count=4, submitted_s=1), work("small", count=1, submitted_s=2)]
    plan = after_a_day(waits)
    assert set(placed(plan)) == {"small/main/0"}
    assert plan.look_s == 24 * HOUR + 600


def test_room_that_ended_work_leaves_is_used_by_the_next() -> None:
    gone = old()
    plan = after_a_day(
        [new("new0", 2), new("new1", 2)], (gone, runs(gone, (0, 1, 2, 3)), 24 * HOUR)
    )
    assert set(placed(plan)) == {"new0/main/0", "new1/main/0"}


def test_work_that_need_not_end_does_not_count_as_lost() -> None:
    """On node m a job of least worth is of no use; the other one is worth less than that on n."""
    jobs = [old("a", 2), old("b", 3), old("c", 3)]
    running = [
        (jobs[0], runs(jobs[0], (0, 1), on="m"), 6 * HOUR),
        (jobs[1], runs(jobs[1], (2, 3, 4), on="m"), HOUR),
        (jobs[2], runs(jobs[2], (0, 1, 2)), 2 * HOUR),
    ]
    nodes = node("m", 5), node("n", 3)
    assert evicted(after_a_day([new("new", 3)], *running, nodes=nodes)) == ["b/main/0"]


HALVES = tuple(Queue(name, quota=Amounts(gpu_milli=2000)) for name in "ab")


def test_of_a_queue_above_its_quota_the_work_of_least_worth_ends_whatever_began_last() -> None:
    jobs = [old(f"b{at}", 1, queue="b") for at in range(4)]
    lasted = (HOUR, 24 * HOUR, 2 * HOUR, 3 * HOUR)
    running = [(job, runs(job, (at,)), lasted[at]) for at, job in enumerate(jobs)]
    plan = after_a_day([new("new", 1)], *running, queues=HALVES)
    assert evicted(plan) == ["b1/main/0"]
    [eviction] = [each for each in plan if isinstance(each, Eviction)]
    assert eviction.reason.startswith("reclaimed: queue b has 4 of a fair share of 3 GPUs")


def test_a_queue_within_its_quota_loses_nothing_to_another() -> None:
    jobs = [old(f"b{at}", 2, queue=queue) for at, queue in enumerate("ab")]
    running = [(job, runs(job, (2 * at, 2 * at + 1)), 60.0) for at, job in enumerate(jobs)]
    assert evicted(after_a_day([new("new", 1)], *running, queues=HALVES)) == []


def test_work_within_quota_moves_for_work_within_quota() -> None:
    jobs = [old(f"a{at}", 2, queue="a") for at in range(2)]
    running = [
        (job, runs(job, (0, 1), on=on), 60.0) for job, on in zip(jobs, ("m", "n"), strict=True)
    ]
    all_ = (Queue("a", quota=Amounts(gpu_milli=8000)), Queue("b"))
    plan = after_a_day([new()], *running, nodes=(node("m"), node("n")), queues=all_)
    assert len(moved(plan)) == 1
    assert set(placed(plan)) == {"new/main/0"}
    assert evicted(plan) == []


def test_work_beyond_quota_does_not_move_others() -> None:
    jobs = [old(f"a{at}", 2, queue="a") for at in range(2)]
    running = [
        (job, runs(job, (0, 1), on=on), 60.0) for job, on in zip(jobs, ("m", "n"), strict=True)
    ]
    all_ = (Queue("a", quota=Amounts(gpu_milli=4000)), Queue("b"))
    plan = after_a_day([new()], *running, nodes=(node("m"), node("n")), queues=all_)
    assert moved(plan) + evicted(plan) == []


@pytest.mark.parametrize(
    ("state_bytes", "host_bytes", "is_suspended"),
    [(0, 100, False), (60, 0, False), (60, 59, False), (60, 60, True)],
    ids=["cannot be suspended", "no host memory", "too little of it", "room"],
)
def test_where_work_may_not_be_lost_it_is_suspended_or_stays(
    state_bytes: int, host_bytes: int, is_suspended: bool
) -> None:
    gone = old()
    there = [replace(each, state_bytes=state_bytes) for each in runs(gone, (0, 1, 2, 3))]
    plan = after_a_day(
        [new()],
        (gone, there, 24 * HOUR),
        settings=replace(STILL, worth_ends=False),
        host_free={node().name: host_bytes} if host_bytes else {},
    )
    ends = [each for each in plan if isinstance(each, Eviction)]
    assert [each.is_suspension for each in ends] == [True] * is_suspended


def test_work_for_which_others_end_keeps_its_room_until_the_next_decision() -> None:
    """Else the others have ended for nothing, come back, and end for it again, for ever."""
    small = [work(f"small{at}", "b", submitted_s=at) for at in range(7)]
    wide, large, one = work("wide", "b", 8), work("large", "a", 4), work("one", "a", submitted_s=1)
    ends = [*small, work("guest", "c")]
    snapshot = Snapshot(
        (node(count=8),),
        (*ends, wide, large, one),
        tuple(each for at, job in enumerate(ends) for each in runs(job, (at,))),
        tuple(
            Queue(name, quota=Amounts(gpu_milli=1000 * gpus))
            for name, gpus in (("a", 1), ("b", 7), ("c", 0))
        ),
        now_s=HOUR,
        credit={"b": 99 * HOUR, "c": -99 * HOUR},
    )
    cycle = Cycle(snapshot, settings=STILL)
    worth = {"wide": 4.0, "large": 4.0, "one": 1.0}
    cycle.state.worth = worth | dict.fromkeys((each.name for each in ends), 1.0)
    cycle.run()
    assert set(placed(cycle.actions())) == {"wide/main/0"}
    assert cycle.ended == {each.name for each in ends}
