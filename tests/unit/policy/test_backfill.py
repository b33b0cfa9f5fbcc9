"""Room is kept for work that has waited long, and for no more than it needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moiety.policy.cycle import Cycle, decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain
from moiety.policy.memory import Began, Divided, Ended, Passed, PolicyMemory, Submitted, learn
from moiety.policy.model.decisions import Placement, Reason
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from tests.unit.policy.build import moved, node, placed, refused, runs, work

ALL = Queue("a", quota=Amounts(gpu_milli=8000))
CPUS = Queue("a", quota=Amounts())
STILL = CycleSettings(moves_max=0)
PAIR = work("pair", count=2)


def notebooks(*late: Workload) -> Snapshot:
    """Eight GPUs with a notebook on each; `pair` has waited for two of them."""
    have = [work(f"nb{at}", count=0.1) for at in range(8)]
    running = [each for at, one in enumerate(have) for each in runs(one, (at,), since_s=-86400.0)]
    work_ = (*have, PAIR, *late)
    return Snapshot((node(count=8),), work_, tuple(running), (ALL,), now_s=700.0)


def asks(name: str, shape: Shape) -> Workload:
    return Workload(name, (Subgroup("main", shape),), "a", submitted_s=700.0)


def test_small_work_begins_beside_the_gpus_that_are_kept() -> None:
    snapshot = notebooks(work("small", count=0.5, submitted_s=700.0))
    assert explain(snapshot, "small", settings=STILL).status == "begins"
    spot = placed(decide(snapshot, settings=STILL))["small/main/0"]
    assert spot.gpus[0] > 1  # 0 and 1 become free first, and are kept


def test_the_gpus_that_are_kept_are_not_given_to_others() -> None:
    many = [work(f"s{at}", count=0.9, submitted_s=700.0) for at in range(8)]
    decisions = decide(notebooks(*many), settings=STILL)
    assert len(placed(decisions)) == 6
    assert {refusal.reason for name, refusal in refused(decisions).items() if name != "pair"} == {
        Reason.RESERVED
    }


def test_cpus_that_the_kept_work_needs_are_kept_too() -> None:
    """`wide` will have two GPUs and 60 of the 64 CPUs: others begin beside it with the rest."""
    have = work("have", count=2)
    wide = Workload("wide", (Subgroup("main", Shape(60000, 0, 2, 1000)),), "a")
    late = (
        asks("l0", Shape(3000, 0, 1, 300)),
        asks("l1", Shape(1000, 0)),
        asks("l2", Shape(1000, 0, 1, 300)),  # a CPU too much
        asks("l3", Shape(0, 0, 1, 300)),
    )
    running = tuple(runs(have, (0, 1), since_s=0.0))
    snapshot = Snapshot((node(count=3),), (have, wide, *late), running, (ALL,), now_s=710.0)
    decisions = decide(snapshot, settings=STILL)
    assert sorted(placed(decisions)) == ["l0/main/0", "l1/main/0", "l3/main/0"]
    assert refused(decisions)["l2"].reason is Reason.RESERVED


def test_part_of_a_gpu_is_kept_and_the_rest_is_not() -> None:
    """The gang will have 0.6 of each of two GPUs: 0.4 of each can be used meanwhile."""
    have = work("have", count=0.5, tasks=2)
    gang = work("gang", count=0.6, tasks=2)
    small = work("small", count=0.4, submitted_s=700.0)
    large = work("large", count=0.5, submitted_s=700.0)
    running = tuple(runs(have, (0,), (1,), since_s=0.0))
    snapshot = Snapshot((node(count=2),), (have, gang, small, large), running, (ALL,), now_s=710.0)
    decisions = decide(snapshot, settings=STILL)
    assert list(placed(decisions)) == ["small/main/0"]
    assert refused(decisions)["large"].reason is Reason.RESERVED


def test_kept_gpus_stay_the_same_while_work_comes_and_goes() -> None:
    """Work that has just begun is expected to end first, but not waited for instead of the old."""
    old = work("old", count=0.5)
    young = [work(f"y{at}", count=0.5, submitted_s=600.0) for at in range(6)]
    running = (
        *runs(old, (0,), since_s=0.0),
        *(each for at, one in enumerate(young) for each in runs(one, (1 + at // 2,), since_s=1e4)),
    )
    late = work("late", count=0.5, submitted_s=1e4)
    whole = work("whole", count=2)
    snapshot = Snapshot(
        (node(),), (old, *young, whole, late), tuple(running), (ALL,), now_s=1e4 + 60
    )
    refusal = refused(decide(snapshot, settings=STILL))["late"]
    assert refusal.reason is Reason.RESERVED


def half_busy(*late: Workload) -> Snapshot:
    """Half of a GPU is in use, and `whole` has waited for all of it."""
    have, whole = work("have", count=0.5), work("whole")
    running = tuple(runs(have, (0,), since_s=0.0))
    return Snapshot((node(count=1),), (have, whole, *late), running, (ALL,), now_s=700.0)


def test_a_half_does_not_go_past_work_that_waits_for_a_whole_gpu() -> None:
    decisions = decide(half_busy(work("half", count=0.5, submitted_s=650.0)), settings=STILL)
    assert placed(decisions) == {}
    refusal = refused(decisions)["half"]
    assert refusal.reason is Reason.RESERVED
    assert "the room that there is is kept for whole" in refusal.text


def test_work_that_came_before_begins_where_room_is_kept() -> None:
    """`old` has waited longer than `whole`, for a long time that keeps it from no turn."""
    old = work("old", count=0.5, submitted_s=-1.0)
    assert list(placed(decide(half_busy(old), settings=STILL))) == ["old/main/0"]


def test_no_room_is_kept_behind_work_that_is_not_expected_to_end() -> None:
    half = work("half", count=0.5, submitted_s=650.0)
    lasting = replace(STILL, lasting_queues=frozenset({"b"}))
    snapshot = half_busy(half)
    server, *others = snapshot.workloads
    works = (replace(server, queue="b", is_preemptible=False), *others)
    beside = replace(snapshot, workloads=works, queues=(ALL, Queue("b")))
    assert placed(decide(beside, settings=STILL)) == {}
    assert list(placed(decide(beside, settings=lasting))) == ["half/main/0"]


def test_only_time_in_which_work_could_have_begun_counts() -> None:
    """A second one like it has waited since its submission, and then room is kept for the first."""
    half = work("half", count=0.5, submitted_s=650.0)
    held = replace(half_busy(half), waits_since={"whole": 400.0})
    assert list(placed(decide(held, settings=STILL))) == ["half/main/0"]
    assert placed(decide(replace(held, now_s=1000.0), settings=STILL)) == {}
    two = replace(held, workloads=(*held.workloads, work("second", submitted_s=50.0)))
    decisions = decide(two, settings=STILL)
    assert placed(decisions) == {}
    assert "kept for whole" in refused(decisions)["half"].text


def test_a_half_that_will_have_ended_goes_past_it() -> None:
    short = work("half", count=0.5, submitted_s=650.0, max_run_s=600.0)
    assert list(placed(decide(half_busy(short), settings=STILL))) == ["half/main/0"]


def test_the_work_that_is_waited_for_is_named() -> None:
    """Room on x is kept for `gang`, room on y for `whole`: the half has room on y only."""
    have, half = work("have", count=2), work("busy", count=0.5)
    gang, whole = work("gang", count=2), work("whole", submitted_s=1.0)
    late = work("late", count=0.5, submitted_s=650.0)
    running = (*runs(have, (0, 1), on="x"), *runs(half, (0,), on="y"))
    nodes = node("x", 2), node("y", 1)
    snapshot = Snapshot(nodes, (have, half, gang, whole, late), running, (ALL,), now_s=700.0)
    assert "is kept for whole" in refused(decide(snapshot, settings=STILL))["late"].text


def test_nothing_moves_for_work_that_only_waits_beside_kept_room() -> None:
    """Such work is often much of what waits, and to look for moves for all of it takes seconds."""
    busy = work("busy", count=0.5, is_preemptible=False)
    only_on_x = Shape(0, 0, 1, 1000, models=frozenset({"A100"}))
    whole = Workload("whole", (Subgroup("main", only_on_x),), "a")
    parts = [work(f"part{at}", count=size) for at, size in enumerate((0.3, 0.3, 0.6))]
    late = work("late", count=0.5, submitted_s=650.0)
    running = [*runs(busy, (0,), on="x")]
    for each, gpu in zip(parts, (0, 0, 1), strict=True):
        running += runs(each, (gpu,), on="y")
    nodes = replace(node("x", 1), model="A100"), node("y", 2)
    there = (busy, *parts, whole, late)
    snapshot = Snapshot(nodes, there, tuple(running), (ALL,), now_s=700.0)
    decisions = decide(snapshot)
    assert moved(decisions) == []
    assert refused(decisions)["late"].reason is Reason.RESERVED


def begins_at(
    waits: Shape, others: Shape, *, gap_s: float, lasts_s: float, gpus: int = 2
) -> tuple[float, bool]:
    """When `waits` begins on a node of 64 CPUs and 1024 MiB, and whether; 40 `others` come.

    It comes after 10 minutes, they come at equal gaps. Worth orders work, and ends none: as in a
    pool of one machine.
    """
    settings = CycleSettings(moves_max=0, worth_ends=False)
    memory = PolicyMemory()
    queue = Queue("a", quota=Amounts())
    learn(memory, Divided(gpus, (queue,)))
    there: dict[str, Workload] = {}
    running: dict[str, Running] = {}
    arrivals = [(600.0, "waits", waits), *((gap_s * at, f"o{at}", others) for at in range(40))]
    arrivals.sort(key=lambda each: each[:2])
    now_s = 0.0
    while arrivals and "waits" not in running:
        now_s = min([arrivals[0][0], *(each.since_s + lasts_s for each in running.values())])
        learn(memory, Passed(now_s))
        for name in [name for name, each in running.items() if each.since_s + lasts_s <= now_s]:
            learn(memory, Ended(name, lasts_s))
            del running[name], there[name]
        while arrivals and arrivals[0][0] <= now_s:
            _, name, shape = arrivals.pop(0)
            main = Subgroup("main", shape)
            there[name] = Workload(name, (main,), "a", user=name[:1], submitted_s=now_s)
            learn(memory, Submitted(there[name]))
        snapshot = Snapshot(
            (node(count=gpus),),
            tuple(there.values()),
            tuple(running.values()),
            (queue,),
            now_s=now_s,
        )
        for each in decide(snapshot, None, settings, memory=memory):
            if isinstance(each, Placement):
                name = each.task.workload
                shape = there[name].subgroups[0].shape
                running[name] = Running(each.task, shape, each.spot, now_s)
                learn(memory, Began(name, now_s))
    return now_s, "waits" in running


@pytest.mark.parametrize(
    "waits",
    [
        Shape(64000),
        Shape(0, 1024),
        Shape(64000, 1024, 1, 1000),
        Shape(64000, 0, 1, 500),
        Shape(64000, 0, 2, 1000),
    ],
)
def test_work_without_gpus_does_not_take_each_cpu_that_becomes_free(waits: Shape) -> None:
    """Some of it always runs, and more comes before that ends: it used to go first for ever."""
    others = Shape(24000, 384)
    assert begins_at(waits, others, gap_s=300.0, lasts_s=600.0) == (1500.0, True)


def test_work_of_fewer_cpus_does_not_take_each_cpu_that_becomes_free() -> None:
    waits, others = Shape(64000, 0, 1, 1000), Shape(24000, 0, 1, 1000)
    assert begins_at(waits, others, gap_s=300.0, lasts_s=600.0) == (1500.0, True)


def test_work_of_one_gpu_that_only_waits_for_gpus_keeps_no_cpus() -> None:
    """The GPUs are full, and CPUs are free: what needs a GPU like it takes its turn by worth."""
    have = work("have", count=2)
    whole = Workload("whole", (Subgroup("main", Shape(8000, 0, 1, 1000)),), "a")
    late = asks("late", Shape(2000, 0, 1, 1000))
    snapshot = Snapshot(
        (node(count=2),), (have, whole, late), tuple(runs(have, (0, 1))), (ALL,), now_s=700.0
    )
    cycle = Cycle(snapshot, settings=STILL)
    cycle.run()
    assert cycle.reserved.all == []


def test_cpus_are_kept_on_one_node_only() -> None:
    """`waits` needs the whole of a node: others begin on the second one."""
    have = (asks("x", Shape(32000)), asks("y", Shape(32000)))
    waits = Workload("waits", (Subgroup("main", Shape(64000)),), "a")
    late = [asks(f"l{at}", Shape(16000)) for at in range(4)]
    running = [each for one, on in zip(have, "pq", strict=True) for each in runs(one, (), on=on)]
    snapshot = Snapshot(
        (node("p"), node("q")), (*have, waits, *late), tuple(running), (CPUS,), now_s=710.0
    )
    decisions = decide(snapshot, settings=STILL)
    assert {spot.node for spot in placed(decisions).values()} == {"q"}
    assert len(placed(decisions)) == 2
    assert refused(decisions)["l3"].reason is Reason.RESERVED


def test_a_whole_gpu_is_waited_for_no_longer_than_what_runs_while_halves_keep_coming() -> None:
    """Halves come every 50 minutes and run for 100: they used to go first for ever."""
    waits, halves = Shape(0, 0, 1, 1000), Shape(0, 0, 1, 500)
    begun = begins_at(waits, halves, gap_s=3000.0, lasts_s=6000.0, gpus=1)
    assert begun == (6000.0, True)  # when the half that ran before has ended
