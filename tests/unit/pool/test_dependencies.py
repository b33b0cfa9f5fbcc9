"""Dependencies: how they are written, and when the store lets work go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moiety.model.errors import BadArgument, WorkUnknown
from moiety.pool.model.dependencies import (
    Dependencies,
    Dependency,
    DependencyKind,
    parse_depends,
)
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import array_changes, changes, dependencies, rows, targets
from tests.support.pool_store import store_in, submission, submitted

AFTER, OK = DependencyKind.AFTER, DependencyKind.AFTEROK


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def begin(store: sqlite3.Connection, number: int, now_s: float = 10.0) -> None:
    attempt = rows.workload(store, number).attempt + 1
    assert changes.begin_attempt(store, number, attempt, [0], now_s)
    changes.started(store, number, attempt, 1, 1)


def end(store: sqlite3.Connection, number: int, state: WorkState = WorkState.DONE) -> None:
    if rows.workload(store, number).state is WorkState.PENDING:
        begin(store, number)
    attempt = rows.workload(store, number).attempt
    assert changes.end_attempt(store, number, attempt, state, "ended", 20.0)


def blocked(store: sqlite3.Connection, number: int) -> str:
    return rows.workload(store, number).blocked


def waits_for(store: sqlite3.Connection, depends: str, **values: object) -> WorkRow:
    return submitted(store, 100.0, depends=depends, **values)


def test_what_is_written_is_what_it_depends_on() -> None:
    assert parse_depends("afterok:12:13_4,after:5+10") == Dependencies(
        (Dependency(OK, 12), Dependency(OK, 13, 4), Dependency(AFTER, 5, None, 600.0))
    )
    assert parse_depends("afterany:1?singleton").is_any
    assert parse_depends("afterok:12_*").parts == (Dependency(OK, 12),)


@pytest.mark.parametrize(
    "text",
    ["", "afterok", "afterok:", "afterok:x", "singleton:3", "afterok:1,afterany:2?after:3",
     "sometime:1", "afterok:1+5", "afterok:1:", "afterok:-1", "afterok:" + "1:" * 1001 + "1"],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        parse_depends(text)


@pytest.mark.parametrize(
    ("kind", "state", "found"),
    [
        ("afterok", WorkState.DONE, ""),
        ("afterok", WorkState.FAILED, "never"),
        ("afterok", WorkState.TIMED_OUT, "never"),
        ("afternotok", WorkState.DONE, "never"),
        ("afternotok", WorkState.FAILED, ""),
        ("afternotok", WorkState.CANCELLED, ""),
        ("afterany", WorkState.DONE, ""),
        ("afterany", WorkState.FAILED, ""),
    ],
)
def test_an_end_settles_what_depends_on_it(
    store: sqlite3.Connection, kind: str, state: WorkState, found: str
) -> None:
    number = submitted(store).id
    row = waits_for(store, f"{kind}:{number}")
    assert (row.blocked, row.depends) == ("waits", f"{kind}:{number}")
    begin(store, number)
    assert blocked(store, row.id) == "waits"
    end(store, number, state)
    assert blocked(store, row.id) == found
    assert rows.since(store, 0)[0][-1].id == row.id, "the engine learns of it"
    late = waits_for(store, f"{kind}:{number}")
    assert late.blocked == found, "the same is found for work that is submitted later"
    assert store.execute("SELECT count(*) FROM dependency").fetchone()[0] == 0


def test_work_that_comes_back_into_the_queue_has_not_ended(store: sqlite3.Connection) -> None:
    number = submitted(store).id
    row = waits_for(store, f"afterany:{number}")
    end(store, number, WorkState.PENDING)
    assert blocked(store, row.id) == "waits"


def test_all_have_to_happen_or_any(store: sqlite3.Connection) -> None:
    first, second = submitted(store).id, submitted(store).id
    both = waits_for(store, f"afterok:{first}:{second}")
    either = waits_for(store, f"afterok:{first}?afterok:{second}")
    end(store, first, WorkState.FAILED)
    assert (blocked(store, both.id), blocked(store, either.id)) == ("never", "waits")
    end(store, second)
    assert (blocked(store, both.id), blocked(store, either.id)) == ("never", "")
    assert waits_for(store, f"afternotok:{second}?afterok:{first}").blocked == "never"


def test_after_a_begin_it_may_take_minutes(store: sqlite3.Connection) -> None:
    number, other = submitted(store).id, submitted(store).id
    at_once = waits_for(store, f"after:{number}:{other}")
    later = waits_for(store, f"after:{number}+5")
    begin(store, number, 1000.0)
    assert blocked(store, at_once.id) == "waits"
    row = rows.workload(store, later.id)
    assert (row.blocked, row.begin_after_s) == ("", 1300.0)
    changes.cancel(store, other, "cancelled", "cancelled", 1001.0)
    assert blocked(store, at_once.id) == "", "a cancelled one counts as begun"


def test_an_array_is_over_with_its_last_task(store: sqlite3.Connection) -> None:
    first = submitted(store, array="0-2")
    row = waits_for(store, f"afterok:{first.id}")
    task = waits_for(store, f"afterok:{first.id}_1")
    begun = waits_for(store, f"after:{first.id}")
    end(store, first.id + 1)
    assert [blocked(store, each.id) for each in (row, task, begun)] == ["waits", "", "waits"]
    begin(store, first.id)
    begin(store, first.id + 2)
    assert blocked(store, begun.id) == ""
    end(store, first.id)
    assert blocked(store, row.id) == "waits"
    end(store, first.id + 2)
    assert blocked(store, row.id) == ""


def test_tasks_wait_for_those_with_their_index(store: sqlite3.Connection) -> None:
    first = submitted(store, array="0-2")
    other = submitted(store).id
    second = waits_for(store, f"aftercorr:{first.id},afterok:{other}", array="1-3")
    end(store, first.id + 1)
    assert [blocked(store, second.id + at) for at in range(3)] == ["waits", "waits", "never"]
    end(store, other)
    assert [blocked(store, second.id + at) for at in range(3)] == ["", "waits", "never"]
    end(store, first.id + 2, WorkState.FAILED)
    assert blocked(store, second.id + 1) == "never"
    with pytest.raises(BadArgument, match="no array"):
        waits_for(store, f"aftercorr:{other}", array="0")
    with pytest.raises(BadArgument, match="for arrays"):
        waits_for(store, f"aftercorr:{first.id}")


def test_a_singleton_waits_for_its_elders_of_one_user(store: sqlite3.Connection) -> None:
    changes.submit(store, submission(name="train"), 1001, "bob", 1.0)
    elder = submitted(store, name="train").id
    row = waits_for(store, "singleton", name="train", array="0-1")
    younger = submitted(store, name="train").id
    assert (row.blocked, blocked(store, row.id + 1)) == ("waits", "waits")
    end(store, younger)
    assert blocked(store, row.id) == "waits"
    end(store, elder)
    assert (blocked(store, row.id), blocked(store, row.id + 1)) == ("", "")


def test_what_can_never_start_ends_if_its_user_wants(store: sqlite3.Connection) -> None:
    number = submitted(store).id
    chain = [number]
    store.execute("BEGIN")
    for _ in range(1100):  # deeper than Python calls may be
        chain.append(waits_for(store, f"afterok:{chain[-1]}", kill_invalid=True).id)
    waits = waits_for(store, f"afterok:{chain[-1]}")
    end(store, number, WorkState.FAILED)
    store.execute("COMMIT")
    last = rows.workload(store, chain[-1])
    assert last.state is WorkState.CANCELLED
    assert last.reason == f"what it depends on cannot happen any more: afterok:{chain[-2]}"
    assert rows.workload(store, waits.id).state is WorkState.PENDING
    assert blocked(store, waits.id) == "never"
    at_once = waits_for(store, f"afterok:{number}", kill_invalid=True)
    assert at_once.state is WorkState.CANCELLED


def test_cancelling_an_array_settles_what_depends_on_its_tasks(store: sqlite3.Connection) -> None:
    first = submitted(store, array="0-2")
    task = waits_for(store, f"afterany:{first.id}_2")
    whole = waits_for(store, f"afterok:{first.id}")
    array_changes.cancel_waiting(store, targets.find(store, str(first.id)), "cancelled", 1.0)
    assert (blocked(store, task.id), blocked(store, whole.id)) == ("", "never")


def test_unknown_work_is_refused_with_nothing_written(store: sqlite3.Connection) -> None:
    with pytest.raises(WorkUnknown):
        waits_for(store, "afterok:99")
    known = submitted(store)
    assert [row.id for row in dependencies.targets_of(store, f"after:{known.id}")] == [known.id]


def test_too_many_dependencies_are_refused_before_each_is_read() -> None:
    with pytest.raises(BadArgument, match="1002 dependencies are more than 1000"):
        parse_depends("afterok" + ":1" * 1001 + ":no-number")
