"""FIFO, FIFO for each queue, backfill and DRF: what each lets begin, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.cli.sim import history as cli
from moiety.model.errors import InvalidValue
from moiety.sim.planners import NAMES, planner_of
from tests.unit.sim.histories import history, jobs_of

NODES = "name,cpu_milli,memory_mib,gpus\nn,100000,100000,8\n"
JOBS = (
    "name,gpus,submitted_s,duration_s,queue,cpu_milli\n"
    "first,6,0,1000,a,1000\nlarge,8,1,500,a,1000\nsmall,1,2,100,a,1000\nother,1,3,100,b,1000\n"
)


def test_the_names_are_those_of_the_command() -> None:
    assert cli.ORDERS == NAMES


@pytest.mark.parametrize(
    ("order", "small_s", "other_s"),
    [("fifo", 1500, 1500), ("backfill", 2, 3), ("fifo-queues", 1500, 3), ("drf", 1500, 3)],
)
def test_which_jobs_pass_a_large_one(
    tmp_path: Path, order: str, small_s: float, other_s: float
) -> None:
    found = jobs_of(history(tmp_path, JOBS, NODES), order)
    assert (found["small"].started_s, found["other"].started_s) == (small_s, other_s)
    assert all(each.stops == 0 for each in found.values())


@pytest.mark.parametrize(("order", "begins"), [("drf", "cpus"), ("fifo-queues", "gpus-2")])
def test_drf_serves_the_smallest_dominant_share(tmp_path: Path, order: str, begins: str) -> None:
    # while `all` runs, queue `gpus` asks for 4 of 8 GPUs twice, and queue `cpus` for 30 % of the
    # CPUs and one GPU twice: then 4, 1 + 1 by DRF; the second large one comes before by age
    jobs = (
        "name,gpus,submitted_s,duration_s,queue,cpu_milli\n"
        "all,8,0,100,x,0\ngpus-1,4,1,500,gpus,0\ngpus-2,4,2,500,gpus,0\n"
        "cpus,1,3,500,cpus,30000\ncpus-2,1,4,500,cpus,30000\n"
    )
    found = jobs_of(history(tmp_path, jobs, NODES), order)
    at_once = {name for name, each in found.items() if each.started_s == 100}
    assert "gpus-1" in at_once
    assert begins in at_once
    assert ("gpus-2" in at_once) is (order == "fifo-queues")


def test_the_limit_of_a_queue_holds(tmp_path: Path) -> None:
    queues = "name,quota_gpus,limit_gpus\na,0,\nb,0,\nc,0,4\n"
    jobs = (
        "name,gpus,submitted_s,duration_s,queue,tasks\n"
        "one,4,0,100,c,1\ntwo,4,0,100,c,1\nb,1,0,100,b,1\n"
    )
    for order in NAMES:
        found = jobs_of(history(tmp_path, jobs, NODES, queues=queues), order)
        starts = sorted(each.started_s or 0.0 for each in (found["one"], found["two"]))
        assert starts == [0, 100], order


def test_a_gang_that_loses_a_node_starts_anew_and_an_overdue_job_ends(tmp_path: Path) -> None:
    nodes = "name,cpu_milli,memory_mib,gpus\nm,9000,9000,4\nn,9000,9000,4\n"
    jobs = (
        "name,gpus,submitted_s,duration_s,tasks,max_run_s\n"
        "gang,4,0,4000,2,\nlong,4,9000,800,1,300\n"
    )
    changes = "at_s,what,node,for_s\n2000,fail,m,100\n"
    for order in NAMES:
        found = jobs_of(history(tmp_path, jobs, nodes, changes=changes), order)
        assert found["gang"].ended_s == 2100 + 30 + 2200, order
        assert found["gang"].failures == 1
        assert found["long"].ended_s == 9300, order


def test_an_order_that_knows_no_queues_is_named_with_those_that_do() -> None:
    from moiety.policy.place.workload_mix import WorkloadMix

    with pytest.raises(InvalidValue) as refused:
        planner_of("srtf", WorkloadMix(()), has_queues=False)
    assert "default, fifo, backfill, fifo-queues, drf" in refused.value.hint
