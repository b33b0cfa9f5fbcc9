from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.model.errors import InternalError
from moiety.policy.cycle import decide
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Snapshot
from moiety.sim import engine
from moiety.sim.by_queue import queues_by_use
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.runs import ClusterChange, GpuPool, RestartCost, Run, replay

COST = RestartCost(30.0)


def trace(*gangs: tuple[int, float, float], nodes: tuple[int, ...] = (8, 8)) -> GangTrace:
    """GPUs, submitted, duration of each."""
    made = tuple(GangJob(f"g{at}", *each) for at, each in enumerate(gangs))
    return GangTrace("t", made, nodes)


def ends(found: GangTrace, *changes: ClusterChange) -> list[float]:
    return [run.ended_s for run in replay(found, Engine(), COST, changes)[0]]


def test_a_gang_larger_than_a_node_has_whole_nodes_and_a_rest() -> None:
    seats = []

    def watch(pool: GpuPool) -> None:
        seats.append({at: count for run in pool.running.values() for at, count in run.seats})

    replay(trace((20, 0, 60), nodes=(8, 8, 8)), Engine(), COST, watch=watch)
    assert sorted(seats[0].values()) == [4, 8, 8]


def test_a_short_job_of_a_user_with_short_jobs_does_not_wait_for_a_long_one() -> None:
    short = [(1, 1000.0 * at, 60.0) for at in range(1, 30)]
    found = ends(trace((16, 0, 40_000), *short))
    assert found[0] > 40_000
    assert all(end - at <= 700 for end, (_, at, _) in zip(found[5:], short[4:], strict=True))


@pytest.mark.parametrize("what", ["down", "drain"])
def test_a_gang_goes_on_after_its_node_went_away(what: str) -> None:
    changes = ClusterChange(100, what, 0), ClusterChange(200, "up", 0)
    [end] = ends(trace((16, 0, 4000)), *changes)
    assert end == (4230 if what == "down" else 4130)


def test_a_node_that_comes_is_used() -> None:
    assert ends(trace((8, 0, 900), (8, 1, 60), nodes=(8,)), ClusterChange(30, "add", gpus=8)) == [
        900,
        90,
    ]


@settings(max_examples=10, deadline=None)
@given(
    gangs=st.lists(
        st.tuples(st.integers(1, 16), st.floats(0, 20_000), st.floats(1, 50_000)),
        min_size=1,
        max_size=25,
    )
)
def test_every_gang_ends_and_no_gpu_is_used_twice(gangs: list[tuple[int, float, float]]) -> None:
    def watch(pool: GpuPool) -> None:
        assert all(0 <= free <= size for free, size in zip(pool.nodes.free, (8, 8), strict=True))

    found = trace(*gangs)
    runs, _ = replay(found, Engine(), COST, watch=watch)
    again, _ = replay(found, Engine(), COST)
    assert [run.ended_s for run in runs] == [run.ended_s for run in again]
    for run in runs:
        assert run.ended_s >= run.gang.submitted_s + run.gang.duration_s - 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_it_decides_by_changes_as_by_all_that_there_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    names = [f"q{at}" for at in range(3)]
    gangs = tuple(
        GangJob(
            f"g{at}",
            random.choice((1, 2, 4, 8, 12)),
            random.uniform(0, 20_000),
            random.choice((60.0, 900.0, 30_000.0)),
            random.choice(names),
            random.choice("xyz"),
        )
        for at in range(60)
    )
    found = GangTrace("t", gangs, (8, 8, 4))
    queues = () if seed == 0 else queues_by_use(found)
    changes = ClusterChange(9000, "down", 0), ClusterChange(12_000, "up", 0)

    def runs() -> list[tuple[float, float | None, int, float]]:
        done, _ = replay(found, Engine(queues), COST, changes)
        return [(run.ended_s, run.began_s, run.preemptions, run.lost_s) for run in done]

    by_changes = runs()

    def whole(self: Engine, pool: GpuPool) -> CyclePlan:
        return decide(self.snapshot(pool), engine.MIX, engine.SETTINGS, memory=self.memory)

    monkeypatch.setattr(Engine, "_ask", whole)
    assert runs() == by_changes
    assert any(stops for _, _, stops, _ in by_changes)


def test_with_an_engine_that_starts_nothing_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Run] = []

    def watch(pool: GpuPool) -> None:
        began.extend(pool.running.values())

    def nothing(*_: Any, **__: Any) -> CyclePlan:
        return CyclePlan()

    monkeypatch.setattr(engine, "decide", nothing)
    with pytest.raises(InternalError, match="2 gangs wait"):
        replay(trace((1, 0, 60), (1, 100, 60)), Engine(), COST, watch=watch)
    assert began == []


def test_time_goes_on_if_the_engine_always_wants_to_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []

    def again(snapshot: Snapshot, *more: Any, **named: Any) -> CyclePlan:
        asked.append(snapshot.now_s)
        assert len(asked) < 200
        return CyclePlan(decide(snapshot, *more, **named), snapshot.now_s)

    found = trace((16, 0, 4000), (16, 0, 60))
    usual = ends(found)
    monkeypatch.setattr(engine, "decide", again)
    assert ends(found) == usual


def test_work_that_runs_for_longer_than_all_spans_ends_nothing_but_itself() -> None:
    assert ends(trace((1, 0, 8_640_000), (1, 8_000_000, 3600))) == [8_640_000, 8_003_600]
