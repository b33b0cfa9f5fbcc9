"""Says what became of what a command names: a workload, or tasks of an array."""

from __future__ import annotations

from collections.abc import Sequence

import click

from moiety.cli.output import emit_json
from moiety.cli.several import each
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.arrays import TASK, TASKS
from moiety.pool.model.records import ArrayStatus, WorkRow


def array_named(target: str, row: WorkRow) -> str | None:
    """The tasks of an array that a target means, of which the pool answered with this row."""
    if TASKS.fullmatch(target):
        return target
    if row.array_id is None or TASK.fullmatch(target):
        return None
    if target.isdecimal() and int(target) != row.array_id:
        return None
    return str(row.array_id)


def act_on(pool: PoolClient, targets: Sequence[str], act: str, output: str) -> int:
    """Ask the pool to `act` on each target, and say what became of it; returns the exit code."""

    def show(target: str, row: WorkRow) -> None:
        click.echo(outcome_line(pool, target, row))

    rows, code = each(
        targets,
        lambda target: pool.post(of(target, act), WorkRow),
        None if output == "json" else show,
    )
    if output == "json":
        emit_json(rows)
    return code


def outcome_line(pool: PoolClient, target: str, row: WorkRow) -> str:
    """One line about it: `workload 7 is held`, `array 12: 8 cancelled, 2 ending`."""
    if (array := array_named(target, row)) is not None:
        return array_line(pool.get(of(array, "array"), ArrayStatus))
    return f"workload {row.shown_id} is {row.state}"


def array_line(status: ArrayStatus) -> str:
    """How many tasks of an array are in each state."""
    counts = ", ".join(f"{number} {state}" for state, number in sorted(status.counts.items()))
    return f"array {status.id}: {counts}"
