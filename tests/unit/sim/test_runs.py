from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.model.errors import InternalError, MoietyError, TraceInvalid, TraceMissing
from moiety.policy.model.queues import Amounts, Queue
from moiety.sim.baselines import NAMES, baseline
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace, read_gangs
from moiety.sim.reading import Complaints
from moiety.sim.runs import ClusterChange, GpuPool, Order, RestartCost, Run, replay
from moiety.sim.schedule import windows
from moiety.sim.seats import Nodes
from tests.unit.sim.where import DATA

ITP = "job_id,submission_time,num_gpu,duration\n"
FREE = RestartCost()
COST = RestartCost(30.0)
needs_itp = pytest.mark.skipif(
    not (DATA / "itp" / "cluster06.csv").exists(), reason=f"no traces in {DATA}"
)


def trace(*gangs: tuple[int, float, float], nodes: tuple[int, ...] = (8,)) -> GangTrace:
    """GPUs, submitted, duration of each."""
    made = tuple(GangJob(f"g{at}", *each) for at, each in enumerate(gangs))
    return GangTrace("t", made, nodes)


def order(name: str) -> Order:
    return Engine() if name == "default" else baseline(name)


def ends(found: GangTrace, name: str, cost: RestartCost = FREE) -> list[float]:
    return [run.ended_s for run in replay(found, order(name), cost)[0]]


def test_a_gang_goes_where_least_is_left_and_a_large_one_takes_whole_nodes() -> None:
    nodes = Nodes((8, 8, 8))
    nodes.take([(1, 3)])
    assert nodes.find(4) == ((1, 4),)
    assert nodes.find(6) == ((0, 6),)
    assert nodes.find(12) == ((0, 8), (1, 4))
    assert nodes.find(16) == ((0, 8), (2, 8))
    assert nodes.find(24) is None
    assert nodes.could(24)
    assert not nodes.could(25)


def test_fifo_waits_for_the_first_and_backfill_does_not() -> None:
    jobs = trace((6, 0, 100), (8, 1, 10), (2, 2, 10))
    assert ends(jobs, "fifo") == [100, 110, 120]
    assert ends(jobs, "backfill") == [100, 110, 12]


def test_a_job_may_run_for_longer_than_any_span_of_run_time() -> None:
    """A job that waits makes the order look at the edges of spans; the last has no end."""
    jobs = trace((8, 0, 8_640_000), (1, 8_000_000, 3600))
    assert ends(jobs, "default") == [8_643_600, 8_003_600]


def test_what_knows_durations_takes_the_shortest_first() -> None:
    jobs = trace((8, 0, 100), (8, 1, 50), (8, 2, 10))
    assert ends(jobs, "sjf") == [100, 160, 110]
    unlike = trace((6, 0, 100), (8, 1, 10), (2, 2, 50))
    assert ends(unlike, "sjf") == [100, 110, 52]
    assert ends(jobs, "srtf") == [160, 61, 12]


def test_srsf_counts_gpus() -> None:
    jobs = trace((8, 0, 10), (1, 0, 20))
    assert ends(jobs, "srtf") == [10, 30]
    assert ends(jobs, "srsf") == [30, 20]


def test_who_had_little_comes_before_who_had_much() -> None:
    jobs = trace((8, 0, 4 * 3600), (8, 1800, 600))
    assert ends(jobs, "las") == [4 * 3600 + 600, 3600 + 600]  # 8 GPU hours first


def test_the_default_prefers_the_new_to_what_has_run_long_and_pays_for_the_restart() -> None:
    jobs = trace((8, 0, 40 * 3600), (8, 30 * 3600, 60))
    long, short = ends(jobs, "default", RestartCost(30.0))
    assert short == 30 * 3600 + 60
    assert long == 40 * 3600 + 60 + 30


def test_work_like_what_ended_soon_is_expected_to_end_soon() -> None:
    quick = [(8, 10.0 * at, 60.0) for at in range(30)]
    slow = [(4, 10.0 * at, 9000.0) for at in range(30)]
    late = trace(*quick, *slow, (8, 40000, 60), (4, 40000, 9000), nodes=(8,) * 40)
    order = Engine()
    expected: dict[int, float] = {}

    def watch(pool: GpuPool) -> None:
        for run in pool.running.values():
            if run.gang.submitted_s == 40000:
                expected.setdefault(
                    run.gang.gpus, order.memory.left_s(f"{run.number:07}", pool.now_s)
                )

    replay(late, order, watch=watch)
    assert expected[8] < 200
    assert expected[4] > 5000


GANGS = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8, 12, 16]), st.integers(0, 20000), st.integers(1, 20000)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(gangs=GANGS, name=st.sampled_from([*NAMES, "default"]))
def test_nobody_has_more_than_there_is_and_everybody_ends(
    gangs: list[tuple[int, int, int]], name: str
) -> None:
    jobs = trace(*sorted(gangs, key=lambda each: each[1]), nodes=(8, 8))

    def watch(pool: GpuPool) -> None:
        assert all(0 <= free <= 8 for free in pool.nodes.free)
        held = [0, 0]
        for run in pool.running.values():
            assert sum(gpus for _, gpus in run.seats) == run.gang.gpus
            for at, gpus in run.seats:
                held[at] += gpus
        assert [8 - free for free in pool.nodes.free] == held

    runs, _ = replay(jobs, order(name), RestartCost(30.0), watch=watch)
    for run in runs:
        least = run.gang.submitted_s + run.gang.duration_s
        assert run.ended_s >= least - 1e-3
        assert run.attained_s == pytest.approx(run.gang.duration_s, abs=1e-3)


@pytest.mark.parametrize("name", [*NAMES, "default"])
def test_the_same_trace_is_replayed_the_same_way(name: str) -> None:
    gangs = [(1 << at % 5, 37.0 * at, 100.0 + at * at * 31 % 5000) for at in range(60)]
    jobs = trace(*gangs, nodes=(8, 8))
    assert ends(jobs, name) == ends(jobs, name)


def test_a_node_that_fails_costs_work_and_one_that_is_drained_does_not() -> None:
    jobs = trace((8, 0, 4000))
    cost = RestartCost(30.0, checkpoint_s=1000)

    def one(what: str) -> Run:
        changes = [ClusterChange(1500, what, 0), ClusterChange(2000, "up", 0)]
        return replay(jobs, Engine(), cost, changes)[0][0]

    failed, drained = one("down"), one("drain")
    assert (failed.failures, failed.ended_s) == (1, 2000 + 30 + 3000)
    assert (drained.preemptions, drained.ended_s) == (1, 2000 + 30 + 2500)


def test_a_node_more_is_used() -> None:
    jobs = trace((8, 0, 1000), (8, 0, 1000))
    runs, timeline = replay(jobs, Engine(), changes=[ClusterChange(100, "add", gpus=8)])
    assert sorted(run.ended_s for run in runs) == [1000, 1100]
    assert timeline.there[0] == 8
    assert timeline.there[-1] == 16


@pytest.mark.parametrize("name", [*NAMES, "default"])
def test_a_gang_runs_on_the_nodes_that_are_left_where_the_largest_is_gone(name: str) -> None:
    changes = [ClusterChange(100, "add", gpus=16), ClusterChange(200, "drain", 4)]
    jobs = trace((1, 0, 10), (16, 150, 1000), (16, 300, 10), nodes=(4,) * 4)
    runs = replay(jobs, order(name), changes=changes)[0]
    assert max(run.ended_s for run in runs) == pytest.approx(1160)


def test_a_gang_of_a_queue_with_a_window_runs_on_the_nodes_that_are_left() -> None:
    queues = (Queue("q", quota=Amounts(1000), windows=windows("mon 01:00-06:00=2")),)
    changes = [ClusterChange(100, "add", gpus=16), ClusterChange(200, "drain", 4)]
    gangs = (GangJob("first", 1, 0, 10, "q"), GangJob("big", 16, 150, 1000, "q"))
    found = replay(GangTrace("t", gangs, (4,) * 4), Engine(queues), COST, changes)[0]
    assert found[1].ended_s == 1150 + COST.restart_s


def test_a_gang_waits_for_its_node_that_is_away_for_a_while() -> None:
    changes = [ClusterChange(100, "drain", 0), ClusterChange(500, "up", 0)]
    jobs = trace((1, 0, 10), (8, 150, 100), nodes=(8, 4, 4))
    assert [run.ended_s for run in replay(jobs, Engine(), changes=changes)[0]] == [10, 600]


class _Idle(Engine):
    """Looks every ten minutes, and starts nothing but the first gang."""

    def decide(self, pool: GpuPool) -> float:
        if 0 in pool.waiting:
            pool.start(pool.waiting[0], ((0, 8),))
        return pool.now_s + 600


def test_a_replay_ends_with_an_error_where_nothing_but_looks_happens() -> None:
    jobs = trace((8, 0, 2_000_000), (8, 10, 100))
    with pytest.raises(InternalError, match="1 gangs wait, and default starts none of them"):
        replay(jobs, _Idle())


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("job_id,submission_time,duration\na,0,5\n", 1, "no column num_gpu"),
        (ITP + "a,-1,1,5\n", 2, "submission_time is negative"),
        (ITP + "a,0,1,5\na,0,1,5\n", 3, "a is in line 2 already"),
        (ITP + "a,0,9,5\n", 2, "a wants 9 GPUs, and the cluster has 8"),
        (ITP + "a,0,1,0\n", 2, "duration is zero"),
        (ITP + "a,0,0,5\n", 2, "num_gpu is 0"),
        (ITP + "a,0,1.5,5\n", 2, "not a whole number"),
        (ITP + "a,x,1,5\n", 2, "not a number: 'x'"),
        (ITP + "a,0,1,1e400\n", 2, "not a number"),
        (ITP + "a,0,1,5,6\n", 2, "more values than columns"),
        (ITP + "a,0\n", 2, "it has no num_gpu"),
        (ITP, 0, "it has no jobs"),
        ("timestamp,duration,num_gpus,cluster\nx,1,1,v\n", 2, "timestamp is no time"),
        ("", 1, "it has no column"),
    ],
)
def test_bad_lines_are_refused_with_their_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(TraceInvalid, match=f"line {line}" if line else "t.csv") as caught:
        read_gangs(file, 8)
    assert problem in caught.value.what


def test_bad_lines_are_left_out_and_told_if_that_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(ITP + "a,0,1,5\nb,-3,1,5\nc,0,64,5\n")
    found = read_gangs(file, 8, lenient=True)
    assert [gang.name for gang in found.gangs] == ["a"]
    assert found.complaints.count == 2


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet='ab,-.0159eE"\n\tx', max_size=60))
def test_no_text_is_more_than_an_error(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "t.csv"
    file.write_text(ITP + text)
    for lenient in (False, True):
        with suppress(MoietyError):
            assert read_gangs(file, 8, lenient=lenient).gangs


def test_each_format_is_known_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("job_id,num_gpu,submit_time,duration,priority\n1,4,2000,1000000,0\n")
    muri = read_gangs(file, 8).gangs[0]
    assert muri.submitted_s == 2.0
    assert muri.duration_s == pytest.approx(1015)
    file.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,v\n2017-10-09 06:00:00,66.0,1,66.0,w\n"
    )
    assert [gang.queue for gang in read_gangs(file, 8).gangs] == ["w", "v"]
    with pytest.raises(TraceMissing):
        read_gangs(tmp_path / "other.csv", 8)
    assert Complaints().count == 0


@needs_itp
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "hours"), [("fifo", 43.3), ("backfill", 18.3), ("sjf", 13.8), ("srtf", 9.2)]
)
def test_published_orders_come_out_as_they_are_known(name: str, hours: float) -> None:
    jobs = read_gangs(DATA / "itp" / "cluster06.csv", 112, lenient=True)
    took = [run.ended_s - run.gang.submitted_s for run in replay(jobs, order(name))[0]]
    assert sum(took) / len(took) / 3600 == pytest.approx(hours, abs=0.06)
