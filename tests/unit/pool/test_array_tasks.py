"""Arrays in the store: rows of their own, one body, and what names them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moiety.model.errors import WorkAmbiguous, WorkUnknown
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import array_changes, changes, folding, rows, targets
from tests.support.pool_store import store_in, submitted


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def array(store: sqlite3.Connection, indices: str = "0-4", **values: object) -> WorkRow:
    return submitted(store, 100.0, array=indices, name="sweep", **values)


def ended(store: sqlite3.Connection, number: int, state: WorkState = WorkState.DONE) -> None:
    attempt = rows.workload(store, number).attempt + 1
    assert changes.begin_attempt(store, number, attempt, [0], 1.0)
    assert changes.started(store, number, attempt, 1, 1) is WorkState.RUNNING
    changes.end_attempt(store, number, attempt, state, "ended", 2.0)


def test_each_index_is_a_row_and_all_share_a_body(store: sqlite3.Connection) -> None:
    before = submitted(store)
    first = array(store, "2-6:2%2", environment={"A": "1"}, script="#!/bin/sh\n")
    assert first.id == before.id + 1
    found = [rows.workload(store, first.id + at) for at in range(3)]
    assert [(row.array_id, row.array_index, row.array_at_once) for row in found] == [
        (first.id, 2, 2), (first.id, 4, 2), (first.id, 6, 2),
    ]  # fmt: skip
    assert store.execute("SELECT count(*) FROM body").fetchone()[0] == 2
    assert {rows.submission(store, row.id).environment["A"] for row in found} == {"1"}
    assert found[1].stdout == f"/tmp/moiety-{first.id}_4.log"
    assert submitted(store).id == first.id + 3


def test_logs_are_named_by_the_array_and_the_index(store: sqlite3.Connection) -> None:
    first = array(store, "0-1", stdout="%x/%A_%3a-%j-100%%.out", stderr="%a.err")
    second = rows.workload(store, first.id + 1)
    assert second.stdout == f"/tmp/sweep/{first.id}_001-{second.id}-100%.out"
    assert second.stderr == "/tmp/1.err"
    alone = submitted(store, stdout="%A-%a.log")
    assert alone.stdout == f"/tmp/{alone.id}-0.log"


def test_a_task_the_array_and_some_tasks_can_be_named(store: sqlite3.Connection) -> None:
    first = array(store)
    task = targets.find(store, f"{first.id}_3")
    assert (task.row.array_index, task.is_array) == (3, False)
    assert not targets.find(store, str(first.id + 2)).is_array, "the number of a later task"
    for named in (str(first.id), "sweep"):
        whole = targets.find(store, named)
        assert (whole.array_id, whole.indices) == (first.id, None)
    some = targets.find(store, f"{first.id}_[3-9]")
    assert (some.row.array_index, some.indices) == (3, (3, 4))
    for wrong in (f"{first.id}_9", f"{first.id}_[9]", "77_1", "77_[1]"):
        with pytest.raises(WorkUnknown):
            targets.find(store, wrong)
    array(store)
    with pytest.raises(WorkAmbiguous, match="2 workloads are called sweep"):
        targets.find(store, "sweep")


def test_a_change_of_an_array_leaves_what_runs(store: sqlite3.Connection) -> None:
    first = array(store)
    ended(store, first.id)
    changes.begin_attempt(store, first.id + 1, 1, [0], 1.0)
    whole = targets.find(store, str(first.id))
    assert array_changes.hold(store, whole, f"held by {first.user}") == 3
    assert targets.counts(store, whole) == {"done": 1, "starting": 1, "held": 3}
    assert array_changes.hold(store, whole, "held by boss") == 0
    assert array_changes.why_held(store, whole) == ["held by boss"]
    assert array_changes.hold(store, whole, f"held by {first.user}") == 0
    assert array_changes.why_held(store, whole) == ["held by boss"]
    some = targets.find(store, f"{first.id}_[3-4]")
    assert array_changes.release(store, some) == 2
    active = array_changes.cancel_waiting(store, whole, "cancelled by ann", 5.0)
    assert [row.array_index for row in active] == [1]
    assert targets.counts(store, whole) == {"done": 1, "starting": 1, "cancelled": 3}
    assert targets.first_live(store, whole) == active[0]
    changes.end_attempt(store, first.id + 1, 1, WorkState.DONE, "exited 0", 6.0)
    assert targets.first_live(store, whole) is None
    assert targets.worst(store, whole).state is WorkState.CANCELLED


def test_what_waits_is_one_line_in_each_state(store: sqlite3.Connection) -> None:
    alone = submitted(store)
    first = array(store, "0-9")
    other = submitted(store)
    ended(store, first.id)
    ended(store, first.id + 1, WorkState.PENDING)
    changes.begin_attempt(store, first.id + 2, 1, [0], 1.0)
    changes.transition(store, first.id + 5, WorkState.HELD, reason="held by ann")
    page = folding.page(store)
    number = first.id
    assert [row.id for row in page.rows] == [
        alone.id, number + 1, number + 2, number + 3, number + 5, other.id,
    ]  # fmt: skip
    assert page.folds == {number + 3: "3-4,6-9"}, "a task alone has its own name"
    assert page.after is None
    short = folding.page(store, limit=4)
    assert short.after == number + 3
    rest = folding.page(store, limit=4, after=short.after)
    assert [row.id for row in (*short.rows, *rest.rows)] == [row.id for row in page.rows]
    assert [row.id for row in folding.page(store, states=["held"], user="ann").rows] == [number + 5]
    assert folding.page(store, project="other").rows == []


def test_ten_thousand_tasks_are_few_bytes_each(store: sqlite3.Connection) -> None:
    secret = "x" * 100_000
    store.execute("BEGIN")
    first = array(store, "0-9999", environment={"LONG": secret})
    store.execute("COMMIT")
    whole = targets.find(store, str(first.id))
    assert targets.counts(store, whole) == {"pending": 10000}
    assert rows.submission(store, first.id + 9999).environment == {"LONG": secret}
    size = sum(int(each[0]) for each in store.execute("SELECT length(submission) FROM body"))
    assert size < 110_000
    page = folding.page(store)
    assert page.folds == {first.id: "0-9999"}


def test_many_tasks_are_found_with_few_questions(store: sqlite3.Connection) -> None:
    first = array(store, "0-99")
    asked: list[str] = []
    store.set_trace_callback(asked.append)
    found = targets.find(store, f"{first.id}_[7-200]")
    assert found.row.array_index == 7
    assert found.indices == tuple(range(7, 100))
    assert len(asked) <= 3
