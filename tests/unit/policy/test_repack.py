"""New places for work within quota, and work that ends whatever else waits."""

from __future__ import annotations

from moiety.policy.cycle import Cycle
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.decisions import Eviction, Move, Placement
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.preempt.overdue import incomplete, overdue
from moiety.policy.preempt.repack import repack, within_quota
from moiety.policy.preempt.victims import Victims
from moiety.policy.state.cluster_state import ClusterState
from tests.unit.policy.build import A, node, runs, work

ON = ("m", "n")


def state_of(quota_gpus: int | None, *jobs: tuple[Workload, str | None]) -> ClusterState:
    """Two nodes of 4 GPUs; each job runs on the first free GPUs of its node, or waits."""
    free = dict.fromkeys(ON, 0)
    running = []
    for job, on in jobs:
        if on is not None:
            count = job.subgroups[0].shape.gpus
            running += runs(job, tuple(range(free[on], free[on] + count)), on=on)
            free[on] += count
    quota = Amounts(gpu_milli=None if quota_gpus is None else 1000 * quota_gpus)
    queues = Queue("a", quota=quota), Queue("b")
    snapshot = Snapshot(
        tuple(map(node, ON)), tuple(job for job, _ in jobs), tuple(running), queues, now_s=60.0
    )
    state = ClusterState(snapshot, WorkloadMix(()))
    state.worth = {job.name: float(at + 1) for at, (job, _) in enumerate(jobs)}
    return state


def places(state: ClusterState) -> dict[str, str]:
    return {task.workload: state.pools.spot(one.place).node for task, one in state.seated.items()}


def repacked(state: ClusterState) -> set[str] | None:
    """The names of what ended or moved."""
    before = dict(state.seated)
    plan = repack(state, Victims(state), within_quota(state, ()))
    if plan is None:
        assert state.seated == before
        return None
    return {
        each.unit.workload.name
        for each in plan
        if state.seated.get(each.unit.tasks[0]) != before[each.unit.tasks[0]]
    }


def test_what_can_stay_stays_and_only_work_beyond_quota_makes_room() -> None:
    state = state_of(
        6, (work("stays", count=2), "m"), (work("new", count=4), None), (work("b", "b", 2), "n")
    )
    assert repacked(state) == {"b"}
    assert places(state) == {"stays": "m", "new": "n", "b": "m"}


def test_work_within_quota_moves_together_if_it_is_spread() -> None:
    jobs = (work("x", count=2), "m"), (work("y", count=2), "n"), (work("new", count=4), None)
    state = state_of(8, *jobs)
    assert len(repacked(state) or ()) == 1
    found = places(state)
    assert found["x"] == found["y"] != found["new"]


def test_work_of_higher_priority_does_not_end_for_other_work_of_its_queue() -> None:
    """Without GPUs it is promised nothing. It ended, took its CPUs back by priority, and so on."""
    cpus = Subgroup("main", Shape(64000))
    for priority, ended in ((5, None), (0, {"first"})):
        first = Workload("first", (cpus,), "a", priority=priority)
        waits = Workload("new", (Subgroup("main", Shape(1000, 0, 1, 1000)),), "a")
        snapshot = Snapshot(
            (node("m"),), (first, waits), tuple(runs(first, (), on="m")), (A,), now_s=60.0
        )
        state = ClusterState(snapshot, WorkloadMix(()))
        state.worth = {"first": 1.0, "new": 2.0}
        assert repacked(state) == ended


def test_what_does_not_fit_together_is_left_as_it_is() -> None:
    jobs = (work("x", count=3), "m"), (work("y", count=3), "n"), (work("new", count=2), None)
    assert repacked(state_of(8, *jobs)) is None


def test_beyond_its_quota_work_moves_no_other_and_guaranteed_work_never_moves() -> None:
    jobs = (work("x", count=2), "m"), (work("y", count=2), "n"), (work("new", count=4), None)
    assert repacked(state_of(4, *jobs)) is None
    assert repacked(state_of(None, *jobs)) is None  # nothing is promised
    firm = [
        (work(name, count=2, is_preemptible=False), on) for name, on in zip("xy", ON, strict=True)
    ]
    assert repacked(state_of(8, *firm, jobs[2])) is None


def test_of_the_work_beyond_quota_that_of_least_worth_ends() -> None:
    others = (work("little", "b", 4), "m"), (work("much", "b", 4), "n")
    state = state_of(4, *others, (work("new", count=4), None))
    assert repacked(state) == {"little"}
    assert places(state) == {"new": "m", "much": "n"}


def test_work_ends_after_its_time_and_a_gang_that_lost_members_ends_whole() -> None:
    late, gang = work("late", max_run_s=60.0), work("gang", tasks=3, least=2)
    state = state_of(8, (late, "m"), (work("early", max_run_s=61.0), "m"), (gang, "n"))
    assert overdue(state) == {"late": "it has run for 60 s, and may for 60"}
    assert incomplete(state) == {"gang": "only 1 of at least 2 tasks of the gang have places"}


def test_work_beyond_quota_that_began_in_the_same_cycle_makes_room_too() -> None:
    """Else work within quota ends for it, comes back at once, and so on without end."""
    here, there = work("here", "b", 2), work("there", "c", 2)
    wide, extra = work("wide", "a", 4), work("extra", "b", 1)
    snapshot = Snapshot(
        tuple(map(node, ON)),
        (here, there, wide, extra),
        (*runs(here, (0, 1), on="m"), *runs(there, (0, 1), on="n")),
        tuple(
            Queue(name, quota=Amounts(gpu_milli=gpus * 1000))
            for name, gpus in (("a", 4), ("b", 2), ("c", 2))
        ),
        now_s=60.0,
    )
    cycle = Cycle(snapshot, settings=CycleSettings(moves_max=0, reservations=0))
    cycle.state.worth = {"here": 8.0, "there": 8.0, "wide": 1.0, "extra": 1.0}
    cycle.run()
    actions = cycle.actions()
    assert [type(each) for each in actions] == [Move, Placement]
    assert {"wide", "here", "there"} == {task.workload for task in cycle.state.seated}
    assert not any(isinstance(each, Eviction) for each in actions)
    assert cycle.ended == set()
