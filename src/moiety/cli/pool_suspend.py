"""Suspends and resumes workloads of the pool, where one is up."""

from __future__ import annotations

import math
import time

import click

from moiety.cli.pool_wait import ASK_S
from moiety.model.errors import NoPool, WorkUnknown
from moiety.pool.client import PoolClient, is_up
from moiety.pool.connection import of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.paths import pool_paths


def suspend(target: str, timeout_s: float) -> WorkRow | None:
    """Suspend a workload, and wait until it is; None if there is no pool, or no such workload."""
    pool = _pool()
    row = _ask(pool, target, "suspend") if pool else None
    if pool is None or row is None:
        return None
    end_s = time.monotonic() + timeout_s
    while row.state is WorkState.SUSPENDING and (left_s := end_s - time.monotonic()) > 0:
        asked = max(1, min(ASK_S, math.ceil(left_s)))
        row = pool.get(of(str(row.id), "wait"), WorkRow, timeout=asked, while_state=row.state)
    return row


def resume(target: str) -> WorkRow | None:
    """Let a workload go on; None if there is no pool, or no such workload in it."""
    pool = _pool()
    return _ask(pool, target, "resume") if pool else None


def show(row: WorkRow) -> None:
    """What became of it."""
    why = f": {row.reason}" if row.reason else ""
    click.echo(f"workload {row.id} is {row.state}{why}")


def _pool() -> PoolClient | None:
    paths = pool_paths()
    return PoolClient(paths) if is_up(paths) else None


def _ask(pool: PoolClient, target: str, act: str) -> WorkRow | None:
    try:
        return pool.post(of(target, act), WorkRow)
    except (NoPool, WorkUnknown):
        return None
