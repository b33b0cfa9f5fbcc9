from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.cli.sim.gangs import ORDERS as SHOWN_ORDERS
from moiety.model.errors import InvalidValue, TraceInvalid
from moiety.policy.model.queues import Amounts, Queue
from moiety.sim import gang_plot
from moiety.sim.by_queue import QuotaWatch, jain, queues_by_use, satisfied
from moiety.sim.capacity import Part, needed, parse_split, split
from moiety.sim.changes import failures, read_changes
from moiety.sim.cluster_trace import of_gangs
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace, read_gangs
from moiety.sim.history_outcome import run_history
from moiety.sim.job_records import JobRecord
from moiety.sim.outcome import ORDERS, run_gangs
from moiety.sim.queue_file import read_queues
from moiety.sim.reading import Complaints
from moiety.sim.runs import ClusterChange, GpuPool, RestartCost, replay
from tests.unit.sim.where import DATA

FREE = RestartCost()
ONE_EACH_MINUTE = GangTrace(
    "t", tuple(GangJob(f"g{at}", 1 << at % 4, 60.0 * at, 900.0) for at in range(40)), (8, 8)
)


def test_the_help_knows_every_order() -> None:
    assert SHOWN_ORDERS == ORDERS


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_is_counted(name: str) -> None:
    found = run_gangs(ONE_EACH_MINUTE, name, FREE)
    assert found.jobs == 40
    assert found.completion_mean_s >= 900
    assert found.wait_mean_s == pytest.approx(found.completion_mean_s - 900)
    assert 0 < found.allocation_percent <= 100
    assert found.completion_s[0] <= found.completion_s[100]
    assert found.timeline[-1][1:] == (0, 16, 0, 0)


def test_more_gpus_until_nobody_waits_too_long() -> None:
    tried: list[int] = []
    found = needed(ONE_EACH_MINUTE, 60, "default", FREE, 8, lambda each: tried.append(each.gpus))
    assert found is not None
    assert found.wait_p95_s <= 60
    assert found.gpus in tried
    assert found.gpus > 16


def test_pools_apart_serve_only_their_sizes() -> None:
    apart = split(ONE_EACH_MINUTE, parse_split("16@2,24"), "fifo", FREE, 8)
    assert (apart.jobs, apart.gpus) == (40, 40)
    assert parse_split("16@2,24") == [Part(16, 2), Part(24, None)]
    with pytest.raises(InvalidValue, match="no pool takes a job of 8"):
        split(ONE_EACH_MINUTE, parse_split("16@2,4"), "fifo", FREE, 8)
    for text in ("", "x", "0", "8@", "8@x,", "-1"):
        if text != "8@":
            with pytest.raises(InvalidValue, match="is no pool"):
                parse_split(text)


def test_changes_are_read_and_wrong_ones_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    file.write_text(
        "at_s,what,node,gpus,for_s\n5,fail,0,,10\n6,add,,4,\n7,remove,2,,\n8,drain,1,,2\n"
    )
    assert read_changes(file, 2, Complaints()) == [
        ClusterChange(5, "down", 0),
        ClusterChange(15, "up", 0),
        ClusterChange(6, "add", gpus=4),
        ClusterChange(7, "drain", 2),
        ClusterChange(8, "drain", 1),
        ClusterChange(10, "up", 1),
    ]
    for line, problem in (
        ("1,burn,0,,", "what is 'burn'"),
        ("1,fail,7,,", "there is no node 7"),
        ("1,add,,0,", "without GPUs"),
        ("-1,fail,0,,", "at_s is negative"),
    ):
        file.write_text(f"at_s,what,node,gpus,for_s\n{line}\n")
        with pytest.raises(TraceInvalid, match="line 2") as caught:
            read_changes(file, 2, Complaints())
        assert problem in caught.value.what


@pytest.mark.parametrize(
    ("second", "begins_s"),
    [("remove,1,,", 70_000), ("fail,1,,40000", 42_000), ("drain,1,,1000", 20_001)],
)
def test_a_node_is_back_when_the_last_of_its_outages_is_over(
    tmp_path: Path, second: str, begins_s: float
) -> None:
    gangs = ((0, 100), (20_000, 50_000), (20_001, 50_000))
    jobs = tuple(GangJob(f"g{at}", 8, *each) for at, each in enumerate(gangs))
    trace = GangTrace("t", jobs, (8, 8))
    file = tmp_path / "c.csv"
    file.write_text(f"at_s,what,node,gpus,for_s\n1000,fail,1,,5000\n2000,{second}\n")
    changes = read_changes(file, 2, Complaints())
    records: list[JobRecord] = []
    run_gangs(trace, "fifo", FREE, changes, records=records)
    assert records[2].started_s == begins_s
    as_history = run_history(of_gangs(trace, (), changes), "fifo", FREE)
    assert as_history.records[2].started_s == begins_s


def test_a_job_must_fit_on_the_nodes_that_are_back_after_all_outages(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    file.write_text("at_s,what,node,gpus,for_s\n1000,fail,1,,5000\n2000,remove,1,,\n")
    trace = GangTrace("t", (GangJob("wide", 16, 0, 100),), (8, 8))
    with pytest.raises(InvalidValue, match="wants 16 GPUs, and after all changes 8 are left"):
        run_gangs(trace, "fifo", FREE, read_changes(file, 2, Complaints()))


@pytest.mark.parametrize("name", ["default", "fifo", "drf"])
def test_a_gang_is_made_for_the_nodes_that_are_left_or_refused(name: str) -> None:
    changes = [
        ClusterChange(100, "drain", 0),
        ClusterChange(100, "add", gpus=4),
        ClusterChange(100, "add", gpus=4),
    ]
    jobs = (GangJob("a", 1, 0, 10), GangJob("wide", 8, 150, 100))
    trace = GangTrace("t", jobs, (8,))

    def ended_s(of: GangTrace) -> float | None:
        if name == "drf":
            return run_history(of_gangs(of, (), changes), name, FREE).records[1].ended_s
        records: list[JobRecord] = []
        run_gangs(of, name, FREE, changes, records=records)
        return records[1].ended_s

    assert ended_s(trace) == 250
    with pytest.raises(InvalidValue, match="a job wants 9 GPUs, and after all changes 8 are left"):
        ended_s(replace(trace, gangs=(jobs[0], replace(jobs[1], gpus=9))))


def test_a_node_cannot_fail_before_it_is_added(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    file.write_text("at_s,what,node,gpus,for_s\n900,add,,8,\n100,fail,2,,10\n950,fail,2,,10\n")
    with pytest.raises(TraceInvalid, match="line 3: there is no node 2: there are 2 then"):
        read_changes(file, 2, Complaints())
    left = read_changes(file, 2, Complaints(True))
    assert [each.at_s for each in left] == [900, 950, 960]


def test_what_can_never_run_again_is_refused_before_the_replay() -> None:
    with pytest.raises(InvalidValue, match="0 are left"):
        run_gangs(
            ONE_EACH_MINUTE,
            "fifo",
            FREE,
            [ClusterChange(1, "drain", 0), ClusterChange(1, "down", 1)],
        )


def test_failures_come_by_the_seed_and_everybody_still_ends() -> None:
    one, other = (failures(ONE_EACH_MINUTE, 1000, 300, seed) for seed in (1, 2))
    assert one == failures(ONE_EACH_MINUTE, 1000, 300, 1)
    assert one != other
    for name in ORDERS:
        found = run_gangs(ONE_EACH_MINUTE, name, RestartCost(30.0, checkpoint_s=100), one)
        assert found.failures > 0


GANGS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 4, 8, 16]),
        st.integers(0, 20000),
        st.integers(1, 9000),
        st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(gangs=GANGS)
def test_nobody_within_quota_waits_and_everybody_ends(
    gangs: list[tuple[int, int, int, str]],
) -> None:
    made = tuple(GangJob(f"g{at}", *each) for at, each in enumerate(gangs))
    trace = GangTrace("t", made, (8, 8, 8))
    quotas = {"a": 16, "b": 8, "c": 0}
    queues = [Queue(name, quota=Amounts(gpu_milli=1000 * q)) for name, q in quotas.items()]
    watch = QuotaWatch(queues)

    def both(pool: GpuPool) -> None:
        assert all(0 <= free <= 8 for free in pool.nodes.free)
        watch(pool)

    runs, _ = replay(trace, Engine(queues), RestartCost(30.0), watch=both)
    assert all(run.is_over for run in runs)
    assert watch.broken == 0


def test_a_queue_that_is_not_there_is_named() -> None:
    trace = GangTrace("t", (GangJob("g", 1, 0, 1, "x"),), (8,))
    with pytest.raises(TraceInvalid, match="queue x, which is not there"):
        run_gangs(trace, "default", RestartCost(), queues=[Queue("y")])
    small = Queue("x", limit=Amounts(gpu_milli=500))
    with pytest.raises(TraceInvalid, match=r"queue x never has more than 0\.5"):
        run_gangs(trace, "default", RestartCost(), queues=[small])


QUEUES = "name,parent,quota_gpus,limit_gpus,weight,priority\n"


def test_a_tree_of_queues_is_read_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text(QUEUES + "all,,8,8,,\na,all,6,,2,\nb,all,2,4,,1\n")
    queues = read_queues(file, Complaints())
    assert [queue.name for queue in queues] == ["all", "a", "b"]
    assert queues[1].quota.gpu_milli == 6000
    assert (queues[1].weight, queues[2].priority) == (2, 1)
    gangs = [GangJob(f"g{at}", 2, 0, 100, "ab"[at % 2]) for at in range(12)]
    watch = QuotaWatch(queues)

    def limits(pool: GpuPool) -> None:
        watch(pool)
        assert pool.held["b"] <= 4
        assert pool.held["a"] + pool.held["b"] <= 8

    runs, _ = replay(GangTrace("t", tuple(gangs), (8, 8)), Engine(queues), watch=limits)
    assert watch.broken == 0
    assert all(run.is_over for run in runs)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b,1,,,\nb,a,1,,,\n", "go round in a loop"),
        ("a,,1,,,\na,,1,,,\n", "a is in line 2 already"),
        ("a,x,1,,,\n", "there is no queue x"),
        ("a,,-1,,,\n", "quota_gpus is negative"),
        ("a,,2,1,,\n", "above its limit"),
        ("a,,1,,,\nb,a,2,,,\n", "quotas below a add up to 2 GPUs, and its own is 1"),
    ],
)
def test_queues_that_make_no_sense_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "q.csv"
    file.write_text(QUEUES + text)
    with pytest.raises(TraceInvalid) as caught:
        read_queues(file, Complaints())
    assert problem in caught.value.what
    assert caught.value.what.startswith("q.csv")


def test_quotas_by_use_add_up_and_fairness_is_one_where_all_got_all() -> None:
    gangs = [GangJob(f"g{at}", 1, 0, 100, "abc"[at % 3]) for at in range(9)]
    queues = queues_by_use(GangTrace("t", tuple(gangs), (8,)))
    assert sum(queue.quota.gpu_milli or 0 for queue in queues) == 8000
    assert jain([1, 1, 1]) == 1
    assert jain([1, 0]) == 0.5
    runs, _ = replay(GangTrace("t", tuple(gangs), (16,)), Engine(queues))
    assert jain(satisfied(runs).values()) == 1


def test_plots_have_a_line_for_each_order(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws plots: moiety[plot]")
    queued = replace(
        ONE_EACH_MINUTE,
        gangs=tuple(replace(g, queue="ab"[at % 2]) for at, g in enumerate(ONE_EACH_MINUTE.gangs)),
    )
    outcomes = [run_gangs(each, "default", FREE) for each in (ONE_EACH_MINUTE, queued)]
    for file in (tmp_path / "a.svg", tmp_path / "b.png"):
        gang_plot.draw(outcomes, file)
        assert file.stat().st_size > 1000
    assert "default" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "philly").is_dir(), reason=f"no traces in {DATA}")
def test_quotas_of_virtual_clusters_are_kept() -> None:
    trace = read_gangs(DATA / "philly" / "philly.csv", 512)
    queues = queues_by_use(trace)
    found = run_gangs(
        replace(trace, gangs=trace.gangs[-24000:-22000]),
        "default",
        RestartCost(30.0),
        queues=queues,
    )
    assert found.quota_broken == 0
