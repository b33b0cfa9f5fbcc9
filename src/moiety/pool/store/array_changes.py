"""Changes many tasks of an array at once, each in the state in which that can be done."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from moiety.pool.model import holds
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows
from moiety.pool.store.targets import Target


def cancel_waiting(
    connection: sqlite3.Connection, target: Target, reason: str, now_s: float
) -> list[WorkRow]:
    """Take tasks out of the queue; returns those that have GPUs and are still to be ended."""
    cancelled = _change(
        connection, target, "state IN ('pending', 'held')",
        {"state": str(WorkState.CANCELLED), "reason": reason, "ended_s": now_s},
    )  # fmt: skip
    changes.wake(connection, (rows.workload(connection, number) for number in cancelled))
    return active(connection, target)


def hold(connection: sqlite3.Connection, target: Target, reason: str) -> int:
    """Keep tasks that wait from starting; returns how many. As `changes.hold`, held ones too."""
    if holds.other_holder(reason, target.row.user) is not None:
        own = f"state = 'held' AND reason IN ('{holds.BY_ITS_USER}', '{holds.BY}' || user)"
        _change(connection, target, own, {"reason": reason})
    values = {"state": str(WorkState.HELD), "reason": reason}
    return len(_change(connection, target, "state = 'pending'", values))


def why_held(connection: sqlite3.Connection, target: Target) -> list[str]:
    """The reasons of tasks that are held."""
    where, values = target.where()
    found = connection.execute(
        f"SELECT DISTINCT reason FROM workload WHERE {where} AND state = 'held'", values
    )
    return [reason for (reason,) in found]


def release(connection: sqlite3.Connection, target: Target) -> int:
    """Let held tasks start; returns how many."""
    values = {"state": str(WorkState.PENDING), "reason": "", "failures": 0, "not_before_s": 0.0}
    return len(_change(connection, target, "state = 'held'", values))


def _change(
    connection: sqlite3.Connection, target: Target, states: str, values: Mapping[str, object]
) -> list[int]:
    where, of_target = target.where()
    numbers = connection.execute(
        f"SELECT id FROM workload WHERE {where} AND {states} ORDER BY id", of_target
    ).fetchall()
    values = {**values, "changed": changes.next_change(connection)}
    names = ", ".join(f"{name} = ?" for name in values)
    connection.execute(
        f"UPDATE workload SET {names} WHERE {where} AND {states}", (*values.values(), *of_target)
    )
    return [number for (number,) in numbers]


def live(connection: sqlite3.Connection, target: Target) -> list[WorkRow]:
    """The tasks that are not over."""
    where, values = target.where()
    found = connection.execute(f"{rows.SELECT} WHERE {where} AND {rows.LIVE} ORDER BY id", values)
    return [rows.row_of(each) for each in found]


def active(connection: sqlite3.Connection, target: Target) -> list[WorkRow]:
    """The tasks that have an attempt."""
    where, values = target.where()
    found = connection.execute(
        f"{rows.SELECT} WHERE {where} AND {rows.LIVE} AND state NOT IN ('pending', 'held')", values
    )
    return [rows.row_of(each) for each in found]
