"""What a command names: one workload, an array, or some of its tasks."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from moiety.model.errors import WorkUnknown
from moiety.pool.model.arrays import TASK, TASKS, parse_indices
from moiety.pool.model.records import WorkRow
from moiety.pool.store import rows


@dataclass(frozen=True, slots=True)
class Target:
    """One workload, or tasks of an array."""

    row: WorkRow
    """The workload, or the first task."""
    array_id: int | None = None
    """Set if tasks of an array are meant."""
    indices: tuple[int, ...] | None = None
    """Which tasks; None: all of the array."""

    @property
    def is_array(self) -> bool:
        """Whether tasks of an array are meant, be it one."""
        return self.array_id is not None

    def where(self) -> tuple[str, tuple[int, ...]]:
        """The condition of SQL for its rows, and the values in it."""
        if self.array_id is None:
            return "id = ?", (self.row.id,)
        if self.indices is None:
            return "array_id = ?", (self.array_id,)
        marks = ", ".join("?" * len(self.indices))
        return f"array_id = ? AND array_index IN ({marks})", (self.array_id, *self.indices)


def find(connection: sqlite3.Connection, target: str, whose: int | None = None) -> Target:
    """What is meant by `12`, `12_3`, `12_[4-9]` or a name; raises WorkUnknown or WorkAmbiguous.

    The number of an array, and a name that only its tasks have, mean all of it. With `whose`, names
    are those of this user's workloads.
    """
    if match := TASKS.fullmatch(target):
        number = int(match[1])
        has = rows.indices(connection, number)
        known = tuple(at for at in parse_indices(match[2]) if at in has)
        first = rows.task(connection, number, known[0]) if known else None
        if first is None:
            raise WorkUnknown(target)
        return Target(first, number, known)
    row = rows.find(connection, target, whose)
    is_number = target == str(row.id)
    names_task = TASK.fullmatch(target) and target == row.shown_id
    if row.array_id is None or names_task or (is_number and row.id != row.array_id):
        return Target(row)
    return Target(rows.workload(connection, row.array_id), row.array_id)


def first_live(connection: sqlite3.Connection, target: Target) -> WorkRow | None:
    """One of its tasks that is not over; None if all are."""
    where, values = target.where()
    found = connection.execute(
        f"{rows.SELECT} WHERE {where} AND {rows.LIVE} LIMIT 1", values
    ).fetchone()
    return None if found is None else rows.row_of(found)


def worst(connection: sqlite3.Connection, target: Target) -> WorkRow:
    """The first task that is not done, or the first of all."""
    where, values = target.where()
    found = connection.execute(
        f"{rows.SELECT} WHERE {where} AND state != 'done' ORDER BY id LIMIT 1", values
    ).fetchone()
    return target.row if found is None else rows.row_of(found)


def counts(connection: sqlite3.Connection, target: Target) -> dict[str, int]:
    """How many of its tasks are in each state."""
    where, values = target.where()
    found = connection.execute(
        f"SELECT state, count(*) FROM workload WHERE {where} GROUP BY state", values
    )
    return dict(found.fetchall())
