"""Finds workloads of the queue and of the past together, each way by an index of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from moiety.pool.model.records import PAGE_MAX, WorkPage
from moiety.pool.model.states import WorkState
from moiety.pool.store import rows


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkSelection:
    """Which workloads are meant; what is empty rules nothing out."""

    ids: Sequence[int] = ()
    """Numbers of workloads, or of arrays."""
    name: str = ""
    uid: int | None = None
    """Only work of this user."""
    user: str = ""
    project: str = ""
    states: Sequence[str] = ()
    since_s: float | None = None
    """With work that has ended since then; None: only what has not ended."""


def page(
    connection: sqlite3.Connection, wanted: WorkSelection, after: int = 0, limit: int = PAGE_MAX
) -> WorkPage:
    """The workloads that are meant, by their numbers."""
    limit = max(1, min(limit, PAGE_MAX))
    conditions, values = _conditions(wanted)
    found: set[int] = set()
    for query, given in _queries(wanted):
        text = f"{query} AND id > ?{conditions} ORDER BY id LIMIT ?"
        found.update(n for (n,) in connection.execute(text, (*given, after, *values, limit + 1)))
    numbers = sorted(found)[: limit + 1]
    chosen = numbers[:limit]
    if not chosen:
        return WorkPage([])
    marks = ", ".join("?" * len(chosen))
    read = connection.execute(f"{rows.SELECT} WHERE id IN ({marks}) ORDER BY id", chosen)
    more = len(numbers) > limit
    return WorkPage([rows.row_of(each) for each in read], chosen[-1] if more else None)


def _conditions(wanted: WorkSelection) -> tuple[str, list[object]]:
    found: list[str] = []
    values: list[object] = []
    for column, value in (
        ("name", wanted.name),
        ("uid", wanted.uid),
        ("user", wanted.user),
        ("project", wanted.project),
    ):
        if value not in ("", None):
            found.append(f" AND {column} = ?")
            values.append(value)
    if wanted.states:
        found.append(f" AND state IN ({', '.join('?' * len(wanted.states))})")
        values += [str(WorkState(state)) for state in wanted.states]
    return "".join(found), values


def _queries(wanted: WorkSelection) -> list[tuple[str, tuple[object, ...]]]:
    """Queries that each walk one index, without what rules out more."""
    over = "0" if wanted.since_s is None else "ended_s >= ?"
    since = () if wanted.since_s is None else (wanted.since_s,)
    is_meant = f"(ended_s IS NULL OR {over})"
    if wanted.ids:
        marks = ", ".join("?" * len(wanted.ids))
        given = (*wanted.ids, *since)
        return [
            (f"SELECT id FROM workload WHERE id IN ({marks}) AND {is_meant}", given),
            (
                "SELECT id FROM workload INDEXED BY workload_array "
                f"WHERE array_id IN ({marks}) AND {is_meant}",
                given,
            ),
        ]
    if wanted.name:
        text = f"SELECT id FROM workload INDEXED BY workload_name WHERE {is_meant}"
        return [(text, since)]
    live = f"SELECT id FROM workload WHERE {rows.LIVE}"
    past = "SELECT id FROM workload INDEXED BY workload_over WHERE ended_s >= ?"
    if wanted.user:
        live = f"SELECT id FROM workload INDEXED BY workload_live_user WHERE {rows.LIVE}"
        past = "SELECT id FROM workload INDEXED BY workload_over_user WHERE ended_s >= ?"
    return [(live, ()), *([(past, since)] if since else [])]
