"""Cycles that may do only so much, and room that is kept for who waits for much."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from moiety.policy import cycle
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain import pending_reasons
from moiety.policy.model.decisions import Reason
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix, typical_work
from moiety.policy.state.gang_start import start_piece
from moiety.sim.scenario import after
from tests.unit.policy.build import evicted, moved, node, placed, refused, runs, work

ALL = Queue("a", quota=Amounts())


def test_a_small_budget_places_a_little_in_each_cycle_until_all_is_placed() -> None:
    nodes = tuple(node(f"n{at:02}") for at in range(20))
    too_large = tuple(work(f"big{at}", count=8) for at in range(10))
    small = tuple(work(f"w{at:02}", submitted_s=1.0) for at in range(80))
    snapshot = Snapshot(nodes, (*too_large, *small), (), (ALL,))
    whole = set(placed(decide(snapshot)))
    assert len(whole) == 80
    budget = WorkBudget(steps=7)
    found: set[str] = set()
    for _ in range(40):
        decisions = decide(snapshot, budget=budget)
        now = placed(decisions)
        assert len(now) <= 7
        found |= set(now)
        snapshot = after(snapshot, decisions)
    assert found == whole


def test_with_a_budget_of_one_step_room_is_made_in_the_end() -> None:
    poor, rich = (Queue(name, quota=Amounts(gpu_milli=4000)) for name in ("poor", "rich"))
    have = [work(f"h{at}", "rich") for at in range(8)]
    want = [work(f"w{at}", "poor") for at in range(4)]
    nodes = (node("x"), node("y"))
    running = [r for at, h in enumerate(have) for r in runs(h, (at % 4,), on="xy"[at // 4])]
    snapshot = Snapshot(nodes, (*have, *want), tuple(running), (poor, rich), now_s=99)
    budget = WorkBudget(steps=1)
    for _ in range(60):
        snapshot = after(snapshot, decide(snapshot, budget=budget))
    got = {each.task.workload for each in snapshot.running}
    assert {"w0", "w1", "w2", "w3"} <= got


def test_who_was_not_looked_at_is_told_so() -> None:
    snapshot = Snapshot((node(),), tuple(work(f"w{at}", count=9) for at in range(3)), (), (ALL,))
    found = refused(decide(snapshot, budget=WorkBudget(steps=1)))
    assert {each.reason for each in found.values()} == {Reason.NOT_YET}


def test_time_is_read_from_the_clock_that_is_given() -> None:
    now = iter(range(1000))
    budget = WorkBudget(seconds=3, clock=lambda: float(next(now)))
    snapshot = Snapshot((node(count=8),), tuple(work(f"w{at}") for at in range(8)), (), (ALL,))
    assert 1 <= len(placed(decide(snapshot, budget=budget))) < 8


def test_reading_the_snapshot_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes all of the time here: one piece is tried all the same, and nobody else is."""
    now = [0.0]

    def slow(workloads: Iterable[Workload]) -> WorkloadMix:
        now[0] += 100.0
        return typical_work(workloads)

    monkeypatch.setattr(cycle, "typical_work", slow)
    snapshot = Snapshot((node(count=8),), tuple(work(f"w{at}") for at in range(8)), (), (ALL,))
    decisions = decide(snapshot, budget=WorkBudget(seconds=50, clock=lambda: now[0]))
    assert len(placed(decisions)) == 1
    assert {each.reason for each in refused(decisions).values()} == {Reason.NOT_YET}
    assert len(placed(decide(snapshot, budget=WorkBudget(seconds=1000, clock=lambda: now[0])))) == 8


READING_S, TRY_S = 100.0, 10.0


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock on which reading a snapshot and each try take their time, and nothing else any."""
    now = [0.0]

    def read(workloads: Iterable[Workload]) -> WorkloadMix:
        now[0] += READING_S
        return typical_work(workloads)

    def start(*arguments: Any) -> bool:
        now[0] += TRY_S
        return start_piece(*arguments)

    monkeypatch.setattr(cycle, "typical_work", read)
    monkeypatch.setattr(cycle, "start_piece", start)
    monkeypatch.setattr(pending_reasons, "start_piece", start)
    return now


@pytest.mark.parametrize("seconds", [0.0, 1.0, 99.0, 100.0, 130.0, 200.0, 1000.0])
def test_a_cycle_takes_its_budget_or_reading_and_one_try_more(
    slow: list[float], seconds: float
) -> None:
    """Whatever is asked for, and however many wait; reading is one piece of work."""
    much = tuple(work(f"w{at}", count=9) for at in range(6))
    jobs = (*much, *(work(f"v{at}") for at in range(30)))
    snapshot = Snapshot(tuple(node(f"n{at}") for at in range(5)), jobs, (), (ALL,))
    found = decide(snapshot, budget=WorkBudget(seconds=seconds, clock=lambda: slow[0]))
    assert slow[0] <= max(seconds, READING_S) + TRY_S
    assert len(placed(found)) + len(refused(found)) == len(jobs)


def test_a_budget_below_what_reading_takes_still_reaches_everybody(slow: list[float]) -> None:
    nodes = tuple(node(f"n{at}") for at in range(2))
    jobs = (*(work(f"big{at}", count=8 + at) for at in range(3)), *(work(f"w{at}") for at in "abc"))
    snapshot = Snapshot(nodes, jobs, (), (ALL,))
    budget = WorkBudget(seconds=READING_S / 2, clock=lambda: slow[0])
    for _ in range(len(jobs)):
        snapshot = after(snapshot, decide(snapshot, budget=budget))
    assert {each.task.workload for each in snapshot.running} == {"wa", "wb", "wc"}


def test_moves_are_counted_where_others_end_too() -> None:
    """A gang takes back four whole nodes; on each is a small one that must end or go elsewhere."""
    gang = work("gang", count=4, tasks=4)
    borrowed = [work(f"b{at}", "b", 3, submitted_s=9.0) for at in range(4)]
    small = [work(f"s{at}", "b") for at in range(4)]
    kept = [work(f"k{at}", "b", 2, is_preemptible=False) for at in range(2)]
    nodes = tuple(node(name) for name in ("n0", "n1", "n2", "n3", "k0", "k1"))
    running = [r for at, each in enumerate(borrowed) for r in runs(each, (0, 1, 2), on=f"n{at}")]
    running += [r for at, each in enumerate(small) for r in runs(each, (3,), on=f"n{at}")]
    running += [r for each in kept for r in runs(each, (0, 1), on=each.name)]
    entitled = (Queue("a", quota=Amounts(gpu_milli=16000)), Queue("b", created_s=1.0))
    jobs = (gang, *borrowed, *small, *kept)
    snapshot = Snapshot(nodes, jobs, tuple(running), entitled, now_s=99.0)
    for most in range(5):
        decisions = decide(snapshot, settings=CycleSettings(moves_max=most))
        assert len(moved(decisions)) == most
        assert len(evicted(decisions)) == 8 - most
        assert len(placed(decisions)) >= 4
        assert {f"b{at}/main/0" for at in range(4)} <= set(evicted(decisions))


def waiting_gang(**small: Any) -> tuple[Snapshot, Workload]:
    """Half of the GPUs are in use for another 100 s, and a gang has waited long for all of them."""
    have = work("have", count=2)
    gang = work("gang", count=2, tasks=2)
    late = work("late", count=1, submitted_s=900.0, **small)
    running = tuple(runs(have, (0, 1), on="x", since_s=900.0))
    nodes = (node("x", 2), node("y", 2))
    return Snapshot(nodes, (have, gang, late), running, (ALL,), now_s=1000.0), late


def test_room_is_kept_for_a_gang_that_waits() -> None:
    snapshot, _ = waiting_gang()
    settings = CycleSettings(runtimes=lambda workload: 200.0 if workload.name == "have" else None)
    decisions = decide(snapshot, settings=settings)
    assert placed(decisions) == {}
    found = refused(decisions)["late"]
    assert found.reason is Reason.RESERVED
    assert found.numbers["expected_s"] == 100
    assert "kept for gang, which is expected to begin in 100 s" in found.text
    assert list(placed(decide(snapshot, settings=CycleSettings(reservations=0)))) == ["late/main/0"]
    assert list(placed(decide(snapshot, settings=CycleSettings(reserve_after_s=5000)))) == [
        "late/main/0"
    ]


def test_who_ends_before_that_runs_there_meanwhile() -> None:
    snapshot, _ = waiting_gang(max_run_s=90.0)
    known = {"have": 200.0}
    settings = CycleSettings(runtimes=lambda workload: known.get(workload.name))
    assert list(placed(decide(snapshot, settings=settings))) == ["late/main/0"]
    known["late"] = 80.0
    snapshot, _ = waiting_gang()
    assert list(placed(decide(snapshot, settings=settings))) == ["late/main/0"]
    known["late"] = 120.0
    assert placed(decide(snapshot, settings=settings)) == {}


def test_the_gang_gets_what_was_kept_for_it() -> None:
    snapshot, _ = waiting_gang()
    rest = Snapshot(snapshot.nodes, snapshot.workloads[1:], (), (ALL,), now_s=1100.0)
    decisions = decide(rest)
    assert sorted(placed(decisions)) == ["gang/main/0", "gang/main/1"]
    assert evicted(decisions) == []
