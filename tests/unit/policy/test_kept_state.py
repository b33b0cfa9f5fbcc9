"""What is kept of a decision changes none of the next ones: random clusters, step by step."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.pending_reasons import PendingReasons
from moiety.policy.model.cluster import Placing, Pool
from moiety.policy.model.decisions import Eviction, Placement, PlacementRefusal
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Affinity, Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state import kept_state
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.kept_state import Changes, KeptState
from moiety.sim.scenario import after
from tests.unit.policy.build import node, runs, work
from tests.unit.policy.clusters import cluster

KNOWN = WorkloadMix(())
SETTINGS = CycleSettings(defragment_moves=2, min_run_s=1.0)
STEPS = 12


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each state that is built anew for `KeptState`."""
    found: list[str] = []

    def build(*args: Any) -> ClusterState:
        found.append("anew")
        return ClusterState(*args)

    monkeypatch.setattr(kept_state, "ClusterState", build)
    return found


def plain(workload: Workload) -> Workload:
    """Without labels: states with labels are not kept."""
    groups = tuple(replace(each, company=Affinity()) for each in workload.subgroups)
    return replace(workload, subgroups=groups)


def between(before: Snapshot, now: Snapshot) -> Changes:
    """What changed from one snapshot to the next."""
    old = {each.name: each for each in before.workloads}
    had = {each.task: each for each in before.running}
    has = {each.task: each for each in now.running}
    came = tuple(each for each in now.workloads if old.get(each.name) is not each)
    there = {each.name for each in now.workloads}
    gone = {each.name for each in came if each.name in old} | (old.keys() - there)
    return Changes(
        came,
        tuple(sorted(gone)),
        tuple(e for e in now.running if e.task.workload in gone or had.get(e.task) is not e),
        tuple(task for task in had if task not in has and task.workload not in gone),
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("placing", [Placing.DEFAULT, Placing.BIN_PACK])
def test_decisions_are_the_same_at_each_step(seed: int, placing: Placing, built: list[str]) -> None:
    random = Random(seed)
    whole = cluster(seed)
    left = [plain(each) for each in whole.workloads]
    snapshot = replace(whole, workloads=(), pools=(Pool(placing=placing),))
    kept, told = KeptState(), KeptState()
    before: Snapshot | None = None
    decided = 0
    for step in range(STEPS):
        coming, left = left[:5], left[5:]
        over = {each.task.workload for each in snapshot.running if random.random() < 0.15}
        lost = {each.task for each in snapshot.running if random.random() < 0.05}
        work = [each for each in (*snapshot.workloads, *coming) if each.name not in over]
        at = random.randrange(len(work))
        work[at] = replace(work[at], priority=work[at].priority + 1)
        snapshot = replace(
            snapshot,
            workloads=tuple(work),
            running=tuple(
                each
                for each in snapshot.running
                if each.task.workload not in over and each.task not in lost
            ),
            nodes=snapshot.nodes[:-1] if step == STEPS // 2 else snapshot.nodes,
        )
        there = {each.name for each in snapshot.nodes}
        snapshot = replace(
            snapshot, running=tuple(each for each in snapshot.running if each.spot.node in there)
        )
        anew = decide(snapshot, KNOWN, SETTINGS)
        built.clear()
        plan = decide(snapshot, KNOWN, SETTINGS, kept=kept)
        assert list(plan) == list(anew), step
        assert bool(built) == (step in (0, STEPS // 2)), step
        if before is None or before.nodes is not snapshot.nodes:
            by_changes = decide(snapshot, KNOWN, SETTINGS, kept=told)
        else:
            built.clear()
            bare = replace(snapshot, workloads=(), running=())
            changes = between(before, snapshot)
            by_changes = decide(bare, KNOWN, SETTINGS, kept=told, changes=changes)
            assert not built
        assert list(by_changes) == list(anew), step
        before = snapshot
        decided += len(plan)
        if random.random() < 0.8:  # else nothing of the plan is carried out
            snapshot = after(snapshot, plan)
    assert decided > 2 * STEPS


def test_another_mix_of_work_or_labels_or_chance_begin_anew(built: list[str]) -> None:
    kept = KeptState()
    first = Snapshot((node(),), (work("w"),))
    for snapshot, known in (
        (first, KNOWN),
        (first, WorkloadMix(())),
        (replace(first, workloads=(work("w", company=Affinity(affinity="x")),)), KNOWN),
        (replace(first, pools=(Pool(placing=Placing.RANDOM),)), KNOWN),
        (replace(first, workloads=(work("w", queue="other"),)), KNOWN),
    ):
        built.clear()
        decide(snapshot, known, SETTINGS, kept=kept)
        assert built == ["anew"]


def test_a_snapshot_that_makes_no_sense_is_refused_and_the_next_one_is_not() -> None:
    kept, job = KeptState(), work("w")
    first = Snapshot((node(),), (job,))
    decide(first, KNOWN, SETTINGS, kept=kept)
    [one] = runs(job, (0,))
    for wrong in (
        replace(first, running=(one, one)),
        replace(first, running=tuple(runs(work("x"), (0,)))),
        replace(first, running=tuple(runs(job, (0,), on="m"))),
    ):
        with pytest.raises(InvalidValue):
            decide(wrong, KNOWN, SETTINGS, kept=kept)
        [placement] = decide(first, KNOWN, SETTINGS, kept=kept)
        assert isinstance(placement, Placement)


def test_reasons_are_found_when_they_are_read_and_are_those_of_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    found = PendingReasons.all

    def all_of(self: PendingReasons, without: Container[str]) -> list[PlacementRefusal]:
        asked.append(len(asked))
        return found(self, without)

    monkeypatch.setattr(PendingReasons, "all", all_of)
    kept, job, small = KeptState(), work("large", count=8), work("small")
    first = Snapshot((node(),), (job, small))
    plan = decide(first, KNOWN, SETTINGS, kept=kept)
    [placement] = plan.actions
    assert isinstance(placement, Placement)
    assert not asked
    unread = decide(replace(first, workloads=(job,)), KNOWN, SETTINGS, kept=kept)
    assert len(asked) == 1, "the reasons of a plan that is still there were found before it goes"
    assert [each.text for each in plan[1:]] == [r.text for r in decide(first)[1:]]  # type: ignore[union-attr]
    assert len(plan) == 2
    del unread
    decide(first, KNOWN, SETTINGS, kept=kept)
    assert len(asked) == 2, "no reasons are found of a plan that was dropped"


def test_changes_that_make_no_sense_are_refused() -> None:
    job = work("w")
    first = Snapshot((node(),), (job,))
    bare = replace(first, workloads=())
    [one] = runs(job, (0,))
    with pytest.raises(InvalidValue, match="name all work"):
        decide(bare, KNOWN, SETTINGS, kept=KeptState(), changes=Changes())
    for wrong in (
        Changes(came=(job,)),
        Changes(gone=("x",)),
        Changes(ended=(one.task,)),
        Changes(began=tuple(runs(work("x"), (0,)))),
    ):
        kept = KeptState()
        decide(first, KNOWN, SETTINGS, kept=kept)
        with pytest.raises(InvalidValue):
            decide(bare, KNOWN, SETTINGS, kept=kept, changes=wrong)
        [placement] = decide(first, KNOWN, SETTINGS, kept=kept)
        assert isinstance(placement, Placement)


def test_what_was_planned_and_did_not_happen_is_planned_again() -> None:
    kept = KeptState()
    first = Snapshot((node(),), (work("w"),))
    bare = replace(first, workloads=())
    [placement] = decide(first, KNOWN, SETTINGS, kept=kept)
    assert list(decide(bare, KNOWN, SETTINGS, kept=kept, changes=Changes())) == [placement]
    began = Changes(began=tuple(runs(work("w"), (0,))))
    assert list(decide(bare, KNOWN, SETTINGS, kept=kept, changes=began)) == []


def test_a_gang_that_lacks_members_ends_in_one_order() -> None:
    """Its tasks began in another order than that of their names."""
    gang = work("gang", tasks=3, count=1)
    running = runs(gang, (0,), (1,))
    snapshot = Snapshot((node(count=2),), (gang,), tuple(reversed(running)))
    ends = [str(each.task) for each in decide(snapshot) if isinstance(each, Eviction)]
    assert ends == ["gang/main/0", "gang/main/1"]
