"""Users take turns in a project, and may have only so much waiting work."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from moiety.model.errors import TooMuchWaiting
from moiety.pool.engine.messages import CardView, CycleRequest, MachineView
from moiety.pool.engine.planner import PoolPlanner
from moiety.pool.engine.snapshot import workload_of
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows
from moiety.pool.store.turns import STEP_S, SubmitRules, submit, waiting_of
from tests.support.pool_store import reading_in, store_in, submission

ANN, BOB = 1001, 1002
TURNS = SubmitRules(takes_turns=True)
NOW_S = 1000.0


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def submitted(
    store: sqlite3.Connection, uid: int, now_s: float, rules: SubmitRules = TURNS, **values: Any
) -> int:
    return submit(store, submission(**values), uid, str(uid), now_s, rules)


def order(store: sqlite3.Connection) -> list[int]:
    """All that waits, as the engine orders it."""
    found = [workload_of(row, []) for row in rows.page(store, limit=1000).rows]
    return [int(w.name) for w in sorted(found, key=lambda w: (w.submitted_s, int(w.name)))]


def test_one_of_another_user_is_among_the_first_of_many(store: sqlite3.Connection) -> None:
    many = [submitted(store, ANN, NOW_S) for _ in range(50)]
    array = submitted(store, ANN, NOW_S, array="0-49")
    one = submitted(store, BOB, NOW_S + 30.0)
    assert order(store).index(one) == 1
    assert order(store)[2:52] == [*many[1:], array], "a user's own stay in their order"
    assert rows.workload(store, array + 49).turn_s == NOW_S + 99 * STEP_S


def test_what_is_due_comes_before_what_is_submitted_later(store: sqlite3.Connection) -> None:
    many = [submitted(store, ANN, NOW_S) for _ in range(5)]
    later = [submitted(store, BOB, NOW_S + 3 * STEP_S + second) for second in range(1, 4)]
    assert order(store) == [*many[:4], later[0], many[4], *later[1:]]


def test_projects_do_not_count_together_and_an_own_pool_has_no_turns(
    store: sqlite3.Connection,
) -> None:
    changes.apply(store, [])
    first = submitted(store, ANN, NOW_S, SubmitRules())
    second = submitted(store, ANN, NOW_S, SubmitRules())
    assert [rows.workload(store, number).turn_s for number in (first, second)] == [0.0, 0.0]


def test_a_user_has_only_so_much_waiting_work(store: sqlite3.Connection) -> None:
    rules = SubmitRules(takes_turns=True, waiting=3)
    numbers = [submitted(store, ANN, NOW_S, rules, hold=at == 0) for at in range(3)]
    with pytest.raises(TooMuchWaiting, match=r"3 workloads of yours wait.*above 3") as found:
        submitted(store, ANN, NOW_S, rules)
    assert "`[pool] waiting`" in found.value.hint
    with pytest.raises(TooMuchWaiting):
        submitted(store, BOB, NOW_S, rules, array="0-3")
    submitted(store, BOB, NOW_S, rules, array="0-2")
    assert changes.begin_attempt(store, numbers[1], 1, [0], NOW_S) is not None
    submitted(store, ANN, NOW_S, rules)
    assert (waiting_of(store, ANN), waiting_of(store, BOB)) == (3, 3)


def test_the_count_needs_no_look_at_all_rows(store: sqlite3.Connection) -> None:
    plan = store.execute(
        "EXPLAIN QUERY PLAN "
        "SELECT count(*) FROM workload WHERE uid = ? AND state IN ('pending', 'held')", (1,)
    ).fetchall()  # fmt: skip
    assert "workload_waiting" in plan[0][-1], plan


def test_many_short_programs_of_one_user_do_not_go_before_the_others(
    store: sqlite3.Connection, tmp_path: Path
) -> None:
    """What programs are worth is learned, and short ones would go first."""
    planner = PoolPlanner(reading_in(tmp_path))
    card = CardView(index=0, model="A", memory_mib=1000)
    machine = MachineView(name="box", cpu_milli=8000, memory_mib=1000, cards=[card])
    now_s = NOW_S
    for _ in range(40):
        submitted(store, ANN, NOW_S, name="short")
    for _ in range(20):
        (start,) = planner.cycle(CycleRequest(machine, now_s)).starts
        assert changes.begin_attempt(store, start.number, 1, [0], now_s) is not None
        planner.cycle(CycleRequest(machine, now_s))
        now_s += 0.5
        changes.end_attempt(store, start.number, 1, WorkState.DONE, "exited 0", now_s)
    one = submitted(store, BOB, now_s, name="other")
    assert [start.number for start in planner.cycle(CycleRequest(machine, now_s)).starts] == [one]
