"""Keeps the steps of workloads: they outlive the folder in which a job counts its steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from moiety.model.errors import WorkStateWrong
from moiety.pool.model.states import ACTIVE
from moiety.pool.model.steps import StepReport, StepRow
from moiety.pool.store import rows

COLUMNS: Final = tuple(field.name for field in msgspec.structs.fields(StepRow))
SELECT: Final = f"""
SELECT step.workload, {", ".join(f"step.{name}" for name in COLUMNS)} FROM step
  JOIN workload ON workload.id = step.workload AND workload.attempt = step.attempt
 WHERE step.workload IN (%s) ORDER BY step.workload, step.number
"""
"""The steps of the last start of each workload, as `sacct` shows them."""
COUNT: Final = "SELECT workload, count(*) FROM step WHERE workload IN (%s) GROUP BY workload"
INSERT: Final = (
    f"INSERT INTO step(workload, attempt, {', '.join(COLUMNS)}) "
    f"VALUES(?, ?, {', '.join('?' * len(COLUMNS))})"
)


def tell(connection: sqlite3.Connection, number: int, report: StepReport) -> None:
    """Write down that a step has begun, or how it ended. What has ended stays as it is.

    The end of a step may be told after that of its workload.

    Raises:
        WorkUnknown: there is no such workload.
        WorkStateWrong: the step is not known, and its workload does not run, or was started anew.
    """
    row = rows.workload(connection, number)
    if report.attempt != row.attempt:
        raise WorkStateWrong(f"workload {number} was started anew: the step is of an earlier start")
    step = report.step
    key = (number, report.attempt, step.number)
    where = "WHERE workload = ? AND attempt = ? AND number = ?"
    known = connection.execute(f"SELECT ended_s FROM step {where}", key).fetchone()
    if known is None:
        if row.state not in ACTIVE:
            raise WorkStateWrong(f"workload {number} is {row.state}: no step of it begins")
        connection.execute("DELETE FROM step WHERE workload = ? AND attempt < ?", key[:2])
        values = msgspec.structs.astuple(step)
        connection.execute(INSERT, (number, report.attempt, *values))
    elif known == (None,) and step.ended_s is not None:
        connection.execute(
            f"UPDATE step SET ended_s = ?, exit_code = ?, exit_signal = ? {where}",
            (step.ended_s, step.exit_code, step.exit_signal, *key),
        )


def of(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[StepRow]]:
    """The steps of workloads by the numbers of these; those without steps are left out."""
    found: dict[int, list[StepRow]] = {}
    marks = ", ".join("?" * len(numbers))
    for number, *values in connection.execute(SELECT % marks, tuple(numbers)):
        step = StepRow(**dict(zip(COLUMNS, values, strict=True)))
        found.setdefault(number, []).append(step)
    return found


def how_many_fit(connection: sqlite3.Connection, numbers: Sequence[int], most: int) -> int:
    """How many workloads, from the first on, have no more than `most` steps together.

    It is at least one, so that a list of them always goes on.
    """
    marks = ", ".join("?" * len(numbers))
    counts = dict(connection.execute(COUNT % marks, tuple(numbers)).fetchall())
    for at, number in enumerate(numbers):
        most -= counts.get(number, 0)
        if most < 0:
            return max(at, 1)
    return len(numbers)
