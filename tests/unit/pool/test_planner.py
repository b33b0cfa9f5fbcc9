"""The planner reads only what has changed, and decides as from the beginning."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moiety.pool.engine.messages import CardView, CycleRequest, MachineView, ReasonsRequest
from moiety.pool.engine.planner import PoolPlanner
from moiety.pool.model.records import ProjectRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes
from moiety.pool.store.database import reader
from tests.support.pool_store import paths_in, store_in, submitted

TWO = MachineView(
    name="box",
    cpu_milli=8000,
    memory_mib=1000,
    cards=[CardView(index=i, model="A", memory_mib=1000) for i in range(2)],
)


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


@pytest.fixture
def planner(store: sqlite3.Connection, tmp_path: Path) -> PoolPlanner:
    del store  # it is there
    return PoolPlanner(reader(paths_in(tmp_path)))


def test_it_goes_on_from_what_it_knows(store: sqlite3.Connection, planner: PoolPlanner) -> None:
    first, second, third = (submitted(store, float(at)).id for at in range(3))
    answer = planner.cycle(CycleRequest(TWO, 10.0))
    assert [start.number for start in answer.starts] == [first, second]
    again = planner.cycle(CycleRequest(TWO, 11.0))
    assert again == answer, "nothing was committed, so the same is decided"
    for start in answer.starts:
        changes.begin_attempt(store, start.number, start.attempt, start.cards, 11.0)
    assert planner.cycle(CycleRequest(TWO, 12.0)).starts == []
    changes.end_attempt(store, first, 1, WorkState.DONE, "exited 0", 13.0)
    started = planner.cycle(CycleRequest(TWO, 14.0)).starts
    assert [(start.number, start.cards) for start in started] == [(third, answer.starts[0].cards)]


def test_a_project_changed_live_counts_at_once(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    changes.apply(store, [ProjectRow(name="nlp", limit=0)])
    submitted(store, project="nlp")
    assert planner.cycle(CycleRequest(TWO, 1.0)).starts == []
    why = planner.reasons(ReasonsRequest(TWO, 1.0, [1, 99])).reasons
    assert set(why) == {1}
    assert (why[1].kind, why[1].is_final) == ("queue-limit", True)
    changes.apply(store, [ProjectRow(name="nlp")])
    assert [start.number for start in planner.cycle(CycleRequest(TWO, 2.0)).starts] == [1]


def test_work_that_failed_to_start_is_looked_at_when_its_time_comes(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 1.0)
    changes.end_attempt(
        store, number, 1, WorkState.PENDING, "failed to start", 2.0, failures=1, not_before_s=5.0
    )
    answer = planner.cycle(CycleRequest(TWO, 2.0))
    assert (answer.starts, answer.look_s) == ([], 5.0)
    assert [start.attempt for start in planner.cycle(CycleRequest(TWO, 5.0)).starts] == [2]


def test_a_gpu_that_is_drained_gets_nothing(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    for at in range(2):
        submitted(store, float(at))
    cards = [CardView(index=i, model="A", memory_mib=1000, usable=i > 0) for i in range(2)]
    drained = MachineView(name="box", cpu_milli=8000, memory_mib=1000, cards=cards)
    assert [start.cards for start in planner.cycle(CycleRequest(drained, 1.0)).starts] == [[1]]
    assert len(planner.cycle(CycleRequest(TWO, 2.0)).starts) == 2
