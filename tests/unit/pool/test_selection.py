"""Work of the queue and of the past is found together, by an index."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, selection
from moiety.pool.store.selection import WorkSelection
from tests.support.pool_store import store_in, submission, submitted


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def end(store: sqlite3.Connection, number: int, at_s: float) -> None:
    changes.cancel(store, number, "cancelled", "cancelled by ann", at_s)


def found(store: sqlite3.Connection, **wanted: object) -> list[int]:
    return [row.id for row in selection.page(store, WorkSelection(**wanted)).rows]  # type: ignore[arg-type]


def test_work_is_found_by_each_of_its_marks(store: sqlite3.Connection) -> None:
    for name in ("a", "b", "a"):
        submitted(store, name=name)
    changes.submit(store, submission(name="b"), 1001, "bob", 100.0)
    end(store, 1, 500.0)
    assert found(store) == [2, 3, 4]
    assert found(store, since_s=0) == [1, 2, 3, 4]
    assert found(store, since_s=501) == [2, 3, 4]
    assert found(store, name="a") == [3]
    assert found(store, name="a", since_s=0) == [1, 3]
    assert found(store, user="bob", since_s=0) == [4]
    assert found(store, name="b", uid=1000) == [2]
    assert found(store, ids=[1, 4], since_s=0) == [1, 4]
    assert found(store, ids=[1, 4]) == [4]
    assert found(store, states=[WorkState.CANCELLED], since_s=0) == [1]
    assert found(store, project="other") == []


def test_the_number_of_an_array_means_its_tasks(store: sqlite3.Connection) -> None:
    for _ in range(4):
        submitted(store)
    store.execute("UPDATE workload SET array_id = 2, array_index = id - 2 WHERE id IN (2, 3)")
    assert found(store, ids=[2]) == [2, 3]
    assert found(store, ids=[3]) == [3]


def test_pages_follow_each_other(store: sqlite3.Connection) -> None:
    for _ in range(7):
        submitted(store)
    end(store, 2, 500.0)
    seen, after = list[int](), 0
    for _ in range(4):
        page = selection.page(store, WorkSelection(since_s=0.0), after, 2)
        seen += [row.id for row in page.rows]
        after = page.after or 0
    assert (seen, after) == ([1, 2, 3, 4, 5, 6, 7], 0)


@pytest.mark.parametrize(
    "wanted",
    [{}, {"since_s": 9.0}, {"user": "ann", "since_s": 9.0}, {"name": "a", "since_s": 9.0},
     {"ids": [1, 2], "since_s": 9.0}],
)  # fmt: skip
def test_no_way_reads_all_rows(store: sqlite3.Connection, wanted: dict[str, object]) -> None:
    submitted(store, name="a")
    plans: list[str] = []
    statements: list[str] = []
    store.set_trace_callback(statements.append)
    selection.page(store, WorkSelection(**wanted))  # type: ignore[arg-type]
    store.set_trace_callback(None)
    for statement in statements:
        plans += [row[3] for row in store.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert plans
    assert not [plan for plan in plans if plan == "SCAN workload"], plans
