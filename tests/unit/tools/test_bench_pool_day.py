"""A day of a pool: how its jobs are scaled, and what counts as a quota that was not kept."""

from __future__ import annotations

import pytest

from bench.pool_day import Attempt, Day, day_of, predicted, quota_broken, start_cost_s
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.sim.gangs import GangJob

QUOTAS = {"a": 2.0, "b": 1.0}


def test_the_day_has_the_load_that_is_asked_for() -> None:
    gangs = [GangJob(str(at), 1 + at % 8, 1000.0 * at, 50.0 * (1 + at % 7)) for at in range(100)]
    jobs = day_of(gangs, 60.0)
    assert jobs[0].submitted_s == 0.0
    assert jobs[-1].submitted_s == pytest.approx(60.0)
    work = sum(job.gpus * job.duration_s for job in jobs)
    assert work == pytest.approx(0.9 * 8 * 60.0)
    assert {job.queue for job in jobs} == {"a", "b"}
    assert predicted(jobs, 0.0) >= sum(job.duration_s for job in jobs) / 100
    assert predicted(jobs, 0.1) > predicted(jobs, 0.0), "a start costs time"


def row(number: int, project: str, gpus: int, submitted_s: float) -> WorkRow:
    return WorkRow(
        id=number, name=f"job{number}", project=project, uid=0, user="u", state=WorkState.DONE,
        gpus=gpus, gpu_milli=1000, submitted_s=submitted_s, ended_s=100.0,
    )  # fmt: skip


def day(rows: list[WorkRow], *attempts: Attempt) -> Day:
    return Day(rows, sorted(attempts, key=lambda each: each.from_s), {}, 0)


@pytest.mark.parametrize(
    ("gpus", "until_s", "broken"),
    [(1, 30.0, 1), (1, 13.0, 0), (2, 30.0, 0)],
    ids=["waits for long", "does not", "is above its own quota"],
)
def test_work_within_its_quota_waits_no_longer_than_an_end_takes(
    gpus: int, until_s: float, broken: int
) -> None:
    rows = [row(1, "a", 3, 0.0), row(2, "b", gpus, 10.0)]
    assert (
        quota_broken(
            day(rows, Attempt(1, 3, 0.0, until_s), Attempt(2, gpus, until_s, 40.0)), QUOTAS
        )
        == broken
    )


def test_work_that_others_have_within_their_quota_may_be_waited_for() -> None:
    rows = [row(1, "a", 2, 0.0), row(2, "b", 1, 0.0)]
    found = day(rows, Attempt(1, 2, 0.0, 50.0), Attempt(2, 1, 50.0, 60.0))
    assert quota_broken(found, QUOTAS) == 0


def test_a_start_costs_what_its_gpus_stand_still_for() -> None:
    rows = [row(1, "a", 2, 0.0), row(2, "b", 1, 1.0)]
    found = day(rows, Attempt(1, 2, 0.25, 10.5), Attempt(2, 1, 11.0, 14.0))
    assert start_cost_s(found, {1: 10.0}) == 0.5, "since it came"
    assert start_cost_s(found, {2: 2.5}) == 1.0, "since GPUs became free"
    assert start_cost_s(found, {1: 10.0, 2: 2.5}) == 0.75
