"""Waits until a workload of the pool has ended."""

from __future__ import annotations

import math
import time
from typing import Final

import click

from moiety.cli.output import emit_json
from moiety.cli.pool_arrays import array_named, outcome_line
from moiety.cli.pool_rows import ended
from moiety.model.errors import NoPool, StillRunning, WorkUnknown
from moiety.model.format import format_duration
from moiety.pool.client import PoolClient, is_up
from moiety.pool.connection import of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS
from moiety.pool.paths import pool_paths

ASK_S: Final = 30
"""How long the pool waits before it answers that there is nothing new."""


def wait(target: str, timeout_s: float | None) -> WorkRow | None:
    """A workload once it is over; None if there is no pool, or no such workload in it.

    Of an array it is a task that did not end well, if there is one.

    Raises StillRunning, and WorkAmbiguous for a name of several.
    """
    paths = pool_paths()
    if not is_up(paths):
        return None
    pool = PoolClient(paths)
    end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    try:
        row = pool.get(of(target), WorkRow)
    except (NoPool, WorkUnknown):
        return None
    named = array_named(target, row) or row.shown_id  # a name may mean another one later
    is_asked = False
    while row.state not in ENDS or not is_asked:
        left_s = end_s - time.monotonic()
        if left_s <= 0 and is_asked:
            raise StillRunning(f"workload {row.shown_id}", format_duration(timeout_s or 0))
        asked = max(0, min(ASK_S, math.ceil(min(left_s, ASK_S))))
        row = pool.get(of(named, "wait"), WorkRow, timeout=asked)
        is_asked = True
    return row


def show(target: str, row: WorkRow, output: str) -> None:
    """How it ended."""
    if output == "json":
        emit_json(row)
    elif (array := array_named(target, row)) is not None:
        click.echo(outcome_line(PoolClient(), array, row))
    else:
        click.echo(f"workload {row.shown_id} is {ended(row)}")
