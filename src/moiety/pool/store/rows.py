"""Reads the store: one workload, pages of workloads, projects."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from moiety.model.errors import ProjectUnknown, WorkAmbiguous, WorkUnknown
from moiety.pool.model.arrays import TASK
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.records import PAGE_MAX, Submission, WorkPage, WorkRow
from moiety.pool.model.states import ENDS, WorkState

FORESEEN: Final = frozenset({"expected_start_s", "expected_low_s", "expected_high_s"})
"""What is found when it is asked for, and in no column."""
COLUMNS: Final = tuple(
    field.name for field in msgspec.structs.fields(WorkRow) if field.name not in FORESEEN
)
SELECT: Final = f"SELECT {', '.join(COLUMNS)} FROM workload"
ENDED_MAX: Final = 20_000
"""The most ended workloads that are read at once."""
LIVE: Final = (
    "state IN ('pending', 'held', 'starting', 'running', 'suspending', 'suspended', "
    "'resuming', 'ending')"
)
"""As the index of live workloads has it."""


def row_of(values: Sequence[Any]) -> WorkRow:
    """A row of `SELECT`."""
    found = dict(zip(COLUMNS, values, strict=True))
    cards = found["cards"]
    found["cards"] = [int(card) for card in cards.split(",")] if cards else []
    found["state"] = WorkState(found["state"])
    found["opportunistic"] = bool(found["opportunistic"])
    found["preemptible"] = bool(found["preemptible"])
    found["requeue"] = bool(found["requeue"])
    found["labels"] = msgspec.json.decode(found["labels"], type=dict[str, str])
    return WorkRow(**found)


def workload(connection: sqlite3.Connection, number: int) -> WorkRow:
    """One workload; raises WorkUnknown."""
    found = connection.execute(f"{SELECT} WHERE id = ?", (number,)).fetchone()
    if found is None:
        raise WorkUnknown(str(number))
    return row_of(found)


def task(connection: sqlite3.Connection, array_id: int, index: int) -> WorkRow | None:
    """A task of an array; None if there is none."""
    found = connection.execute(
        f"{SELECT} WHERE array_id = ? AND array_index = ?", (array_id, index)
    ).fetchone()
    return None if found is None else row_of(found)


def indices(connection: sqlite3.Connection, array_id: int) -> set[int]:
    """The indices of all tasks of an array."""
    found = connection.execute("SELECT array_index FROM workload WHERE array_id = ?", (array_id,))
    return {index for (index,) in found}


def find(connection: sqlite3.Connection, target: str, whose: int | None = None) -> WorkRow:
    """By number, as a task of an array (`12_3`), or by a name; raises WorkAmbiguous.

    A name means the only live one, else the last; tasks of one array count as one, and the first
    is returned. With `whose`, names are those of this user's workloads.
    """
    if target.isascii() and target.isdecimal() and len(target) < 18:
        return workload(connection, int(target))
    if match := TASK.fullmatch(target):
        found = task(connection, int(match[1]), int(match[2]))
        if found is not None:
            return found
    named = "name = ?1 AND (?2 IS NULL OR uid = ?2)"
    live = connection.execute(
        f"SELECT min(id) FROM workload WHERE {named} AND {LIVE} GROUP BY coalesce(array_id, id) "
        "ORDER BY 1 LIMIT 20",
        (target, whose),
    ).fetchall()
    if len(live) > 1:
        raise WorkAmbiguous(target, [number for (number,) in live])
    last = connection.execute(
        f"SELECT max(id) FROM workload WHERE {named}", (target, whose)
    ).fetchone()
    number = live[0][0] if live else last[0]
    if number is None:
        raise WorkUnknown(target)
    return workload(connection, number)


def page(
    connection: sqlite3.Connection,
    *,
    over: bool = False,
    states: Iterable[str] = (),
    project: str = "",
    user: str = "",
    after: int | None = None,
    limit: int = 100,
) -> WorkPage:
    """Live workloads, the oldest first, or those that are over, the newest first."""
    limit = max(1, min(limit, PAGE_MAX))
    wanted, values = filters(states, project, user)
    where = [LIVE if not over else "ended_s IS NOT NULL", *wanted]
    if after is not None:
        where.append(f"id {'<' if over else '>'} ?")
        values.append(str(after))
    order = "DESC" if over else "ASC"
    found = connection.execute(
        f"{SELECT} WHERE {' AND '.join(where)} ORDER BY id {order} LIMIT ?", (*values, limit + 1)
    ).fetchall()
    rows = [row_of(each) for each in found[:limit]]
    return WorkPage(rows, rows[-1].id if len(found) > limit else None)


def filters(states: Iterable[str], project: str, user: str) -> tuple[list[str], list[str]]:
    """Conditions of SQL for what a list is to show, and the values in them."""
    where, values = [], []
    if wanted := [WorkState(state) for state in states]:
        where.append(f"state IN ({', '.join('?' * len(wanted))})")
        values += [str(state) for state in wanted]
    for column, value in (("project", project), ("user", user)):
        if value:
            where.append(f"{column} = ?")
            values.append(value)
    return where, values


def live(connection: sqlite3.Connection, states: Iterable[WorkState]) -> list[WorkRow]:
    """All workloads in these states, which are none of the ends."""
    wanted = [str(state) for state in states]
    assert not ENDS.intersection(wanted), "there may be any number of them"
    marks = ", ".join("?" * len(wanted))
    found = connection.execute(
        f"{SELECT} WHERE {LIVE} AND state IN ({marks}) ORDER BY id", tuple(wanted)
    )
    return [row_of(each) for each in found]


def live_users(connection: sqlite3.Connection) -> set[int]:
    """Whose workloads are not over."""
    found = connection.execute(f"SELECT DISTINCT uid FROM workload WHERE {LIVE}")
    return {uid for (uid,) in found}


def is_any_pending(connection: sqlite3.Connection) -> bool:
    """Whether anything waits for a decision."""
    found = connection.execute(
        f"SELECT 1 FROM workload WHERE {LIVE} AND state = 'pending' LIMIT 1"
    ).fetchone()
    return found is not None


def since(
    connection: sqlite3.Connection,
    change: int,
    kept: Callable[[WorkRow], WorkRow] = lambda row: row,
) -> tuple[list[WorkRow], int]:
    """What has changed since a change of this number, and the number of the last change.

    `kept` makes of each row what is returned.
    """
    found = connection.execute(
        f"SELECT {', '.join(COLUMNS)}, changed FROM workload WHERE changed > ? ORDER BY changed",
        (change,),
    )
    changed = []
    for each in found:  # one by one: all of them twice would be a lot of memory
        changed.append(kept(row_of(each[:-1])))
        change = each[-1]
    return changed, change


def everything_live(
    connection: sqlite3.Connection, kept: Callable[[WorkRow], WorkRow] = lambda row: row
) -> tuple[list[WorkRow], int]:
    """All workloads that are not over, and the number of the last change; `kept` as in `since`."""
    found = connection.execute(f"{SELECT} WHERE {LIVE} ORDER BY id")
    live = [kept(row_of(each)) for each in found]
    last = connection.execute("SELECT max(changed) FROM workload").fetchone()[0]
    return live, last or 0


def ended_since(connection: sqlite3.Connection, change: int) -> list[WorkRow]:
    """The newest workloads that ended after a change of this number."""
    found = connection.execute(
        f"{SELECT} WHERE changed > ? AND ended_s IS NOT NULL ORDER BY changed DESC LIMIT ?",
        (change, ENDED_MAX),
    )
    return [row_of(each) for each in found][::-1]


def last_change(connection: sqlite3.Connection) -> int:
    """The number of the last change."""
    return int(connection.execute("SELECT max(changed) FROM workload").fetchone()[0] or 0)


def changes_after(
    connection: sqlite3.Connection, change: int, most: int
) -> list[tuple[int, WorkRow]]:
    """At most this many of the rows that have changed since, each with its change, in order."""
    found = connection.execute(
        f"SELECT {', '.join(COLUMNS)}, changed FROM workload WHERE changed > ? ORDER BY changed "
        "LIMIT ?",
        (change, most),
    )
    return [(each[-1], row_of(each[:-1])) for each in found]


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """How many live workloads there are in each state."""
    found = connection.execute(
        f"SELECT state, count(*) FROM workload WHERE {LIVE} GROUP BY state"
    ).fetchall()
    return dict(found)


def waiting_by_project(connection: sqlite3.Connection) -> dict[str, int]:
    """How many workloads of each project wait or are held."""
    found = connection.execute(
        f"SELECT project, count(*) FROM workload WHERE {LIVE} AND state IN ('pending', 'held') "
        "GROUP BY project"
    ).fetchall()
    return dict(found)


def submission(connection: sqlite3.Connection, number: int) -> Submission:
    """What was submitted; raises WorkUnknown."""
    found = connection.execute(
        "SELECT submission FROM body WHERE workload = "
        "(SELECT coalesce(array_id, id) FROM workload WHERE id = ?)",  # tasks of an array share it
        (number,),
    ).fetchone()
    if found is None:
        raise WorkUnknown(str(number))
    asked: Submission = msgspec.msgpack.decode(found[0], type=Submission)
    return asked


def projects(connection: sqlite3.Connection) -> list[ProjectRow]:
    """All projects, by name."""
    found = connection.execute("SELECT row FROM project ORDER BY name").fetchall()
    return [_project_of(row) for (row,) in found]


def project(connection: sqlite3.Connection, name: str) -> ProjectRow:
    """One project; raises ProjectUnknown."""
    found = connection.execute("SELECT row FROM project WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise ProjectUnknown(name, [each.name for each in projects(connection)])
    return _project_of(found[0])


@lru_cache(1024)
def _project_of(row: bytes) -> ProjectRow:
    """A project as it was written down; the same text is read once, for submissions come often."""
    found: ProjectRow = msgspec.json.decode(row, type=ProjectRow)
    return found
