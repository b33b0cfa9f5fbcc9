"""Histories of clusters in virtual time: what the engine decides is what happens, no more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.model.errors import InvalidValue, TraceInvalid
from moiety.policy.cycle import decide
from moiety.policy.model.cluster import WHOLE_GPU, Node, gpus
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.sim import planners
from moiety.sim.cluster_trace import ClusterTrace, HistoryJob, NodeChange, of_gangs
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.history_file import with_failures
from moiety.sim.planners import NAMES, planner_of
from moiety.sim.runs import ClusterChange, RestartCost, replay
from moiety.sim.world import World
from tests.unit.sim.histories import COST, history, jobs_of

TIMES = "name,gpus,submitted_s,duration_s"


def test_a_file_of_jobs_ends_as_it_does_in_the_replay_of_files() -> None:
    gangs = tuple(
        GangJob(f"g{at}", 1 + at * 5 % 12, 300.0 * at, 600.0 + 997 * at % 7000) for at in range(40)
    )
    trace = GangTrace("t", gangs, (8, 8))
    changes = (
        ClusterChange(1000, "down", 0),
        ClusterChange(2500, "up", 0),
        ClusterChange(4000, "drain", 1),
        ClusterChange(4500, "up", 1),
        ClusterChange(5000, "add", gpus=8),
    )
    expected = replay(trace, Engine(), COST, changes)[0]
    found = jobs_of(of_gangs(trace, (), changes))
    for run in expected:
        own = found[run.gang.name]
        assert own.ended_s == pytest.approx(run.ended_s)
        assert (own.stops, own.failures) == (run.preemptions, run.failures)


def test_an_engine_that_always_wants_to_be_asked_at_once_does_not_stop_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def at_once(snapshot: Snapshot, *more: Any, **options: Any) -> CyclePlan:
        asked.append(snapshot.now_s)
        assert len(asked) < 500
        plan = decide(snapshot, *more, **options)
        return CyclePlan(plan.actions, snapshot.now_s)

    monkeypatch.setattr(planners, "decide", at_once)
    trace = history(tmp_path, TIMES + "\na,8,0,9000\nb,8,0,9000\nc,8,100,60\n")
    assert {each.ended_s for each in jobs_of(trace).values()} >= {9000}
    assert len(asked) > 8


def test_with_an_engine_that_starts_nothing_nothing_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace = history(tmp_path, TIMES + "\na,1,0,60\nb,1,100,60\n")

    def nothing(*_: Any, **__: Any) -> CyclePlan:
        return CyclePlan()

    monkeypatch.setattr(planners, "decide", nothing)
    with pytest.raises(InvalidValue, match="ever ended: a got no room"):
        jobs_of(trace)


def test_an_elastic_gang_works_as_fast_as_it_has_tasks(tmp_path: Path) -> None:
    jobs = TIMES + ",tasks,min_tasks,preemptible\nwide,8,0,1000,1,1,no\nfew,1,10,1000,16,4,yes\n"
    found = jobs_of(history(tmp_path, jobs))
    # 8 of its 16 tasks run until 1000: 495 s of work are done, and 505 s follow at full speed
    assert found["few"].started_s == 10
    assert found["few"].ended_s == 1505
    assert found["few"].stops == 0


def test_a_failure_costs_the_work_since_the_last_checkpoint_and_a_drain_a_restart(
    tmp_path: Path,
) -> None:
    jobs = TIMES + "\na,8,0,4000\nb,8,0,4000\n"
    changes = "at_s,what,node,for_s\n2000,fail,n1,100\n2000,drain,n2,100\n"
    found = jobs_of(history(tmp_path, jobs, changes=changes))
    by_node = {each.failures: each for each in found.values()}
    assert by_node[1].ended_s == 2100 + 30 + 4000 - 1800
    assert (by_node[0].ended_s, by_node[0].stops) == (2100 + 30 + 2000, 1)


def test_a_node_that_is_added_is_not_there_before(tmp_path: Path) -> None:
    jobs = TIMES + "\na,8,0,900\nb,8,0,900\n"
    changes = "at_s,what,node\n500,add,n2\n"
    found = jobs_of(history(tmp_path, jobs, changes=changes))
    assert sorted(each.ended_s or 0 for each in found.values()) == [900, 1400]


@pytest.mark.parametrize(
    ("changes", "began_s"),
    [
        ("100,fail,n2,5000\n200,remove,n2,\n", 20_000),
        ("100,fail,n2,3000\n200,drain,n2,15000\n", 15_200),
        ("100,remove,n2,\n200,remove,n2,\n12000,add,n2,\n", 12_000),
        ("100,drain,n2,500\n12000,add,n2,\n", 12_000),
    ],
)
def test_a_node_is_back_when_no_outage_holds_it(
    tmp_path: Path, changes: str, began_s: float
) -> None:
    jobs = TIMES + "\nquick,1,0,60\na,8,10000,10000\nb,8,10000,10000\n"
    trace = history(tmp_path, jobs, changes=f"at_s,what,node,for_s\n{changes}")
    found = jobs_of(trace, "fifo")
    assert found["a"].started_s == 10_000
    assert found["b"].started_s == began_s


def test_a_node_that_failed_and_was_repaired_is_not_there_before_it_is_added(
    tmp_path: Path,
) -> None:
    jobs = TIMES + "\na,8,0,500000\nb,8,10,500000\nz,1,600000,10\n"
    trace = history(tmp_path, jobs, changes="at_s,what,node\n590000,add,n2\n")
    late = [
        each.started_s
        for each in jobs_of(with_failures(trace, 30 * 3600.0, 3600.0, 3), "fifo").values()
        if "n2" in each.nodes
    ]
    assert late
    assert min(each or 0.0 for each in late) >= 590_000


def test_what_never_gets_room_again_is_said_not_to_have_ended(tmp_path: Path) -> None:
    jobs = TIMES + "\na,8,0,900\nwide,8,1000,60\n"
    changes = "at_s,what,node\n950,remove,n1\n950,remove,n2\n"
    found = jobs_of(history(tmp_path, jobs, changes=changes))
    assert found["a"].ended_s == 900
    assert found["wide"].started_s is found["wide"].ended_s is None


@pytest.mark.parametrize("order", ["default", "fifo"])
@pytest.mark.parametrize("first", ["", "quick,8,0,60,no\n"])
def test_what_waits_for_longer_than_a_week_begins_when_the_long_job_has_ended(
    tmp_path: Path, first: str, order: str
) -> None:
    nodes = "name,cpu_milli,memory_mib,gpus\nn,8000,8000,8\n"
    jobs = f"{TIMES},preemptible\n{first}long,8,1,1000000,no\nshort,8,10,60,yes\n"
    found = jobs_of(history(tmp_path, jobs, nodes), order)
    assert found["long"].ended_s == (60 if first else 1) + 1_000_000
    assert found["short"].ended_s == found["long"].ended_s + 60


def test_what_waits_for_longer_than_a_week_begins_when_a_node_is_back(tmp_path: Path) -> None:
    nodes = "name,cpu_milli,memory_mib,gpus\nn,8000,8000,8\n"
    changes = "at_s,what,node,for_s\n70,drain,n,800000\n"
    jobs = TIMES + "\nquick,8,0,60\nshort,8,100,60\n"
    found = jobs_of(history(tmp_path, jobs, nodes, changes=changes))
    assert found["short"].started_s == 800_070


def test_a_pool_starts_a_node_for_what_waits_and_gives_it_back(tmp_path: Path) -> None:
    nodes = "name,cpu_milli,memory_mib,gpus,pool\nn,8000,8000,8,spot\n"
    jobs = TIMES + ",pools\na,8,0,900,spot\nb,8,5000,900,\n"
    pools = "name,nodes_min,nodes_max,start_s,idle_s\nspot,0,1,300,600\n"
    trace = history(tmp_path, jobs, nodes, pools=pools)
    there: list[tuple[float, int]] = []
    world = World(
        trace,
        planner_of("default", trace.mix, has_queues=False),
        COST,
        watch=lambda each: there.append((each.now_s, len(each.nodes))),
    )
    world.run()
    assert [run.began_s for run in world.runs] == [300, 5300]
    assert (300, 1) in there
    assert (1800, 0) in there  # empty since 1200


RACKS = (
    "name,cpu_milli,memory_mib,gpus,pool,topology\n"
    "n1,64000,64000,8,cloud,rack=r1\nn2,64000,64000,8,cloud,rack=r2\n"
)


def test_nodes_of_a_pool_are_in_their_own_domains(tmp_path: Path) -> None:
    jobs = TIMES + ",tasks,domain\na,8,0,500,2,rack\n"
    with pytest.raises(TraceInvalid, match="could not begin on the empty cluster"):
        history(tmp_path, jobs, RACKS, pools="name,nodes_min,nodes_max\ncloud,0,\n")
    nodes = RACKS + "n3,64000,64000,8,cloud,rack=r1\n"
    found = jobs_of(history(tmp_path, jobs, nodes, pools="name\ncloud\n"))
    assert found["a"].nodes == ("n1", "n3")
    assert found["a"].started_s == 300


def test_nodes_start_for_a_gang_that_will_be_in_one_domain(tmp_path: Path) -> None:
    """The first two nodes are in two racks: all four start at once, and not first the two."""
    jobs = TIMES + ",tasks,domain\na,8,0,500,2,rack\n"
    nodes = RACKS + "n3,64000,64000,8,cloud,rack=r3\nn4,64000,64000,8,cloud,rack=r3\n"
    found = jobs_of(history(tmp_path, jobs, nodes, pools="name\ncloud\n"))
    assert found["a"].nodes == ("n3", "n4")
    assert found["a"].started_s == 300


def test_parts_of_a_machine_stay_on_it_in_pools_too(tmp_path: Path) -> None:
    nodes = (
        "name,cpu_milli,memory_mib,gpus,model\n"
        "a,64000,64000,4,A100\nb,64000,64000,4,A100\nc,64000,64000,,A100:2|T4:2\n"
    )
    jobs = TIMES + ",tasks,domain,models\nwide,4,0,100,2,host,A100\n"
    for pools in ("name\n*\n", "name,like,nodes_max\ndefault,a,5\n"):
        with pytest.raises(TraceInvalid, match="could not begin on the empty cluster"):
            history(tmp_path, jobs, nodes, pools=pools)


def test_a_pool_of_more_nodes_than_are_known_is_in_one_domain(tmp_path: Path) -> None:
    jobs = TIMES + ",tasks,domain\na,8,0,500,3,rack\n"
    pools = "name,nodes_max,like\ncloud,3,"
    with pytest.raises(TraceInvalid) as refused:
        history(tmp_path, jobs, RACKS, pools=f"{pools}\n")
    assert (
        "pools.csv, line 2: pool cloud may have 3 nodes, and its 2 in the trace are in several"
        in (refused.value.what)
    )
    assert "`like`" in str(refused.value.hint)
    found = jobs_of(history(tmp_path, jobs, RACKS, pools=f"{pools}n2\n"))
    assert found["a"].nodes == ("cloud-1", "cloud-2", "cloud-3")


def test_a_job_ends_when_it_may_not_run_for_longer(tmp_path: Path) -> None:
    jobs = TIMES + ",max_run_s\nbound,1,0,1000,400\n"
    assert jobs_of(history(tmp_path, jobs))["bound"].ended_s == 400


def test_quotas_of_times_of_day_hold(tmp_path: Path) -> None:
    queues = (
        "name,quota_gpus,windows\nday,16,mon-fri 20:00-08:00=0\nnight,0,mon-fri 20:00-08:00=16\n"
    )
    jobs = TIMES + ",tasks,queue,preemptible\nlate,8,28800,3600,2,night,no\n"
    found = jobs_of(history(tmp_path, jobs, queues=queues))
    assert found["late"].started_s == 20 * 3600


def test_fractions_memory_models_and_labels_hold(tmp_path: Path) -> None:
    nodes = (
        "name,cpu_milli,memory_mib,gpus,model,gpu_memory_mib\n"
        "mixed,64000,64000,,A100:1|T4:1,81920|16384\n"
    )
    jobs = (
        TIMES + ",gpu_milli,gpu_memory_mib,models,affinity,anti_affinity,exclusion\n"
        "half,1,0,100,500,,T4,,,\n"
        "other-half,1,0,100,500,,T4,,,\n"
        "by-memory,1,0,100,,40960,,,,mine\n"
        "alone,1,0,100,250,,A100,,,yours\n"
    )
    found = jobs_of(history(tmp_path, jobs, nodes))
    assert found["half"].started_s == found["other-half"].started_s == 0
    assert found["half"].nodes == ("mixed/T4",)
    assert found["by-memory"].nodes == found["alone"].nodes == ("mixed/A100",)
    assert {found["by-memory"].started_s, found["alone"].started_s} == {0, 100}


def test_a_gang_stays_in_its_domain_and_on_its_machine(tmp_path: Path) -> None:
    nodes = (
        "name,cpu_milli,memory_mib,gpus,model,topology\n"
        "a,64000,64000,4,A100,rack=r1\nb,64000,64000,4,A100,rack=r2\n"
        "c,64000,64000,4,A100,rack=r2\nd,64000,64000,,A100:2|T4:2,rack=r3\n"
    )
    jobs = (
        TIMES + ",tasks,domain\nin-rack,4,0,100,2,rack\non-host,1,0,100,4,host\n"
        "any,4,0,100,1,rack:preferred\n"
    )
    found = jobs_of(history(tmp_path, jobs, nodes))
    assert set(found["in-rack"].nodes) == {"b", "c"}
    assert len({each.partition("/")[0] for each in found["on-host"].nodes}) == 1
    assert found["any"].ended_s is not None


def test_a_priority_makes_room_in_its_queue(tmp_path: Path) -> None:
    jobs = TIMES + ",tasks,priority\nlow,8,0,5000,2,0\nhigh,8,100,600,2,9\n"
    found = jobs_of(history(tmp_path, jobs))
    assert found["high"].ended_s == 700
    assert found["low"].stops == 1


@pytest.mark.parametrize("order", NAMES)
@settings(max_examples=8, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(
            st.integers(0, 5000),
            st.integers(1, 4000),
            st.integers(1, 3),
            st.sampled_from([250, 500, 1000]),
            st.sampled_from(["a", "b"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=15,
    ),
    fails_s=st.integers(1, 5000),
)
def test_nothing_is_used_twice_and_every_job_ends(
    order: str, jobs: list[tuple[int, int, int, int, str, bool]], fails_s: int
) -> None:
    made = tuple(
        HistoryJob(
            Workload(
                f"j{at}",
                (Subgroup("main", Shape(1000, 1000, 1, milli), tasks, 1 if elastic else tasks),),
                queue,
                submitted_s=float(come),
            ),
            float(lasts),
        )
        for at, (come, lasts, tasks, milli, queue, elastic) in enumerate(sorted(jobs))
    )
    nodes = tuple(Node(f"n{at}", 8000, 8000, gpus(2), "GPU") for at in range(2))
    changes = (NodeChange(fails_s, "down", "n0"), NodeChange(fails_s + 500, "up", "n0"))
    trace = ClusterTrace("t", nodes, made, changes=changes)

    def watch(world: World) -> None:
        there = {node.name for node in world.nodes}
        has: Counter[tuple[str, int]] = Counter()
        for each in world.running:
            assert each.spot.node in there
            for gpu in each.spot.gpus:
                has[each.spot.node, gpu] += each.spot.gpu_milli
        assert all(milli <= WHOLE_GPU for milli in has.values())

    world = World(
        trace, planner_of(order, trace.mix, has_queues=False), RestartCost(30.0), watch=watch
    )
    world.run()
    for run in world.runs:
        assert run.ended_s is not None
        assert run.began_s is not None
        assert run.ended_s >= run.began_s + run.job.duration_s - 1e-3
