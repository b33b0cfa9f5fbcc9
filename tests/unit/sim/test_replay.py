from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import Node, Placing, gpus
from moiety.policy.model.workloads import Shape
from moiety.sim.replay import ReplaySettings, arrivals, fill, live
from moiety.sim.results import Bucket, compare
from moiety.sim.tables import open_trace
from moiety.sim.trace import Job, Trace
from tests.unit.sim.where import OPENB, needs_openb

WHOLE = Shape(1000, 0, 1, 1000)
ONE_NODE = (Node("n", 64000, 1024, gpus(2), "T4"),)


def trace(*jobs: Job) -> Trace:
    return Trace("t", ONE_NODE, jobs)


def test_tasks_come_until_enough_has_been_asked_for() -> None:
    result = fill(trace(Job("a", WHOLE), Job("b", WHOLE)), ReplaySettings(load_percent=200))
    assert (result.arrived, result.placed, result.refused) == (4, 2, {"gpus-full": 2})
    assert [(b.arrived_percent, b.allocation_percent) for b in result.buckets if b] == [
        (49, 50.0),
        (50, 50.0),
        (51, 50.0),
        (99, 100.0),
        (100, 100.0),
        (101, 100.0),
        (149, 100.0),
        (150, 100.0),
        (151, 100.0),
        (199, 100.0),
        (200, 100.0),
    ]


def test_fragments_are_what_is_free_but_of_no_use() -> None:
    third = Shape(1000, 0, 1, 400)
    jobs = trace(*[Job(str(at), third) for at in range(5)])
    result = fill(jobs, ReplaySettings(load_percent=100))
    assert result.fragments_at(80) == 20.0  # two pieces of 200, too small for another
    assert result.allocation_at(80) == 80.0
    assert result.allocation_at(33) is None


def test_arrivals_are_each_job_once_and_then_again_at_random() -> None:
    packaged = open_trace(None, None, 0)
    coming = list(arrivals(packaged, ReplaySettings(seed=3)))
    jobs = len(packaged.jobs)
    assert sorted(coming[:jobs]) == list(range(jobs))
    assert len(coming) > jobs
    assert coming == list(arrivals(packaged, ReplaySettings(seed=3)))
    assert coming != list(arrivals(packaged, ReplaySettings(seed=4)))
    with pytest.raises(InvalidValue, match="no job asks for any"):
        arrivals(trace(Job("a", Shape(1))), ReplaySettings())
    few = trace(Job("a", Shape(0, 0, 1, 1)), *[Job(str(at), Shape(1)) for at in range(20_000)])
    with pytest.raises(InvalidValue, match="tasks would have to come"):
        arrivals(few, ReplaySettings())


@pytest.mark.parametrize("placing", list(Placing))
def test_the_same_seed_gives_the_same_result(placing: Placing) -> None:
    packaged = open_trace(None, None, 0)
    setting = ReplaySettings(placing, seed=5, load_percent=30, shuffle_nodes=True)
    told: list[int] = []
    one, other = (fill(packaged, setting, told.append) for _ in range(2))
    assert replace(one, decided_s=0) == replace(other, decided_s=0)
    assert sum(told) == one.arrived * 2
    last = one.buckets[-1]
    assert last.arrived_percent == 30
    assert 20 < last.allocation_percent <= 30.5


def test_the_default_rule_allocates_more_than_the_others() -> None:
    packaged = open_trace(None, None, 0)
    at_full = {
        placing: fill(packaged, ReplaySettings(placing, load_percent=101)).allocation_at(100) or 0.0
        for placing in (Placing.DEFAULT, Placing.BEST_FIT, Placing.RANDOM)
    }
    assert at_full[Placing.DEFAULT] > max(at_full[Placing.BEST_FIT], at_full[Placing.RANDOM]) + 5


def test_what_does_not_fit_waits_until_something_ends() -> None:
    result = live(
        trace(
            Job("a", replace(WHOLE, gpus=2), 0, 100),
            Job("b", WHOLE, 10, 50),
            Job("c", WHOLE, 20, 50),
            Job("never", replace(WHOLE, gpus=3), 30, 1),
        ),
        ReplaySettings(),
    )
    assert result.live
    assert (result.placed, result.refused) == (3, {"node-size": 1})
    assert result.live.wait_mean_s == pytest.approx((0 + 90 + 80) / 3)
    assert result.live.completion_mean_s == pytest.approx((100 + 140 + 130) / 3)
    assert (result.live.queue_longest, result.live.lasted_s) == (2, 150)
    assert result.live.allocation_percent == 100
    assert result.live.timeline == [(0, 2, 0), (10, 2, 1), (20, 2, 2), (100, 2, 0), (150, 0, 0)]


def test_what_ends_makes_room_for_what_comes_at_that_moment() -> None:
    both = replace(WHOLE, gpus=2)
    result = live(trace(Job("a", both, 0, 10), Job("b", both, 10, 10)), ReplaySettings())
    assert result.live
    assert result.live.wait_mean_s == 0


def test_a_trace_without_durations_is_not_replayed_live() -> None:
    with pytest.raises(InvalidValue, match="not every job says how long"):
        live(trace(Job("a", WHOLE)), ReplaySettings())


def test_jobs_that_come_faster_run_no_shorter() -> None:
    jobs = trace(Job("a", WHOLE, 100, 10)).faster(4).jobs
    assert (jobs[0].submitted_s, jobs[0].duration_s) == (25, 10)


def test_a_comparison_finds_the_largest_difference() -> None:
    buckets = [Bucket(0, 1.0, None), Bucket(1, 2.5, None), Bucket(2, 9.0, None)]
    found = compare(buckets, (1.0, 2.0))
    assert found
    assert (found.buckets, found.max_error_points, found.at_percent) == (2, 0.5, 1)
    assert compare(buckets, None) is None
    assert compare(buckets, (None,)) is None


def test_live_replays_go_through_time_once() -> None:
    result = live(open_trace(None, None, 0).faster(5000), ReplaySettings())
    assert result.live
    assert result.placed == result.arrived
    assert all(a[0] < b[0] for a, b in pairwise(result.live.timeline))
    assert result.live.timeline[-1][1:] == (0, 0)


@needs_openb
@pytest.mark.parametrize(
    ("name", "placing", "count"),
    [("gpuspec33", Placing.BEST_FIT, 5000), ("default", Placing.FGD, 1300)],
)
def test_the_published_runs_come_out_to_the_last_digit(
    name: str, placing: Placing, count: int
) -> None:
    whole = open_trace(OPENB, name, 43, lenient=True)
    assert whole.arrivals
    part = replace(whole, arrivals=whole.arrivals[:count])
    result = fill(part, ReplaySettings(placing, seed=43))
    buckets = result.buckets[:-1]  # the last one is not whole
    differs = compare(buckets, whole.published[placing])
    assert differs
    assert differs.buckets >= 15
    assert differs.max_error_points <= 0.01


@needs_openb
def test_the_default_rule_holds_its_bar() -> None:
    result = fill(open_trace(OPENB, "default", 42), ReplaySettings(seed=42, load_percent=101))
    at_100 = result.allocation_at(100)
    assert at_100
    assert 95.3 <= at_100 <= 97  # what a linear program says is possible
