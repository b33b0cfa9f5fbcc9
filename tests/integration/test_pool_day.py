"""A short day in a pool: the jobs of two projects come one after the other, and all are done."""

from __future__ import annotations

import pytest

from bench.figure import Figure
from bench.pool_day import day_of, day_pool, figures, run_day
from moiety.devices.native import native_dir
from moiety.sim.gangs import GangJob


@pytest.mark.slow
def test_all_jobs_of_a_day_are_done_within_their_quotas() -> None:
    if native_dir() is None:
        pytest.skip("the native libraries are not built: make test builds them")
    gangs = [GangJob(str(at), (1, 4, 2, 8)[at % 4], float(at), 1.0) for at in range(16)]
    jobs = day_of(gangs, 4.0)
    with day_pool() as (pool, program):
        found = {each.name: each for each in figures(run_day(pool, jobs, program), jobs)}
    assert_met(found["pool_day_lost"])
    assert_met(found["pool_start_refused"])
    assert found["pool_day_jct_error"].value < 1.0, "the simulator knows this pool"


def assert_met(figure: Figure) -> None:
    assert figure.is_met, f"{figure.name} is {figure.value}"
