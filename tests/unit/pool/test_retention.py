"""Old work: it is deleted with all that belongs to it, a little at a time, and nothing else is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moiety.pool.model.states import WorkState
from moiety.pool.store import audit, changes, retention, rows
from moiety.pool.store.retention import delete_old
from tests.support.pool_store import store_in, submitted


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


def ended(store: sqlite3.Connection, at_s: float) -> int:
    """A workload that has run and ended."""
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], at_s - 1)
    changes.end_attempt(store, number, 1, WorkState.DONE, "done", at_s, exit_code=0)
    return number


def there(store: sqlite3.Connection) -> list[int]:
    return [number for (number,) in store.execute("SELECT id FROM workload ORDER BY id")]


def test_what_ended_before_is_deleted_with_all_that_belongs_to_it(
    store: sqlite3.Connection,
) -> None:
    old, new, waits = ended(store, 1000.0), ended(store, 2000.0), submitted(store).id
    delete_old(store, 1500.0)
    assert there(store) == [new, waits]
    for table, column in (("body", "workload"), ("attempt", "workload")):
        left = store.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (old,)).fetchone()
        assert left == (0,), table
    assert store.execute("PRAGMA foreign_key_check").fetchall() == []
    assert submitted(store).id == waits + 1


def test_it_is_done_a_little_at_a_time(
    store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "OLD", retention.OLD.replace("LIMIT 200", "LIMIT 2"))
    numbers = [ended(store, 1000.0 + at) for at in range(5)]
    submitted(store)
    delete_old(store, 9000.0)
    assert there(store)[:3] == numbers[2:], "the oldest go first"


def test_the_last_change_is_not_forgotten(store: sqlite3.Connection) -> None:
    """The engine asks for what came after the last change that it knows."""
    ended(store, 1000.0)
    last = ended(store, 1001.0)
    before = rows.last_change(store)
    delete_old(store, 9000.0)
    assert there(store) == [last]
    assert changes.next_change(store) == before + 1


def test_what_others_wait_for_stays(store: sqlite3.Connection) -> None:
    waited_for = submitted(store).id
    ended(store, 1000.0)
    waits = submitted(store, depends=f"afterok:{waited_for}")
    changes.begin_attempt(store, waited_for, 1, [0], 999.0)
    store.execute(
        "UPDATE workload SET ended_s = 1000.0, state = 'done' WHERE id = ?", (waited_for,)
    )
    delete_old(store, 9000.0)
    assert there(store) == [waited_for, waits.id]


def test_an_array_stays_until_all_of_it_is_over(store: sqlite3.Connection) -> None:
    first = submitted(store, array="0-2").id
    submitted(store)
    for number in (first, first + 1):
        changes.cancel(store, number, "cancelled", "", 1000.0)
    delete_old(store, 9000.0)
    assert first in there(store)
    changes.cancel(store, first + 2, "cancelled", "", 1000.0)
    submitted(store)
    delete_old(store, 9000.0)
    assert not {first, first + 1, first + 2} & set(there(store))


def test_the_audit_log_becomes_shorter_too(store: sqlite3.Connection) -> None:
    for at_s in (100.0, 200.0, 9000.0):
        changes.audit(store, 0, "apply", "", at_s)
    assert delete_old(store, 1000.0) == 2
    assert [row.at_s for row in audit.page(store).rows] == [9000.0]
    assert delete_old(store, 1000.0) == 0
