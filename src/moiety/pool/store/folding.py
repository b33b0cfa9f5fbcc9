"""A page of live workloads in which one row stands for the waiting tasks of an array."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from moiety.pool.model.arrays import format_indices
from moiety.pool.model.records import PAGE_MAX, WorkPage
from moiety.pool.store import rows

FOLDABLE: Final = "array_id IS NOT NULL AND attempt = 0 AND state IN ('pending', 'held')"
"""Tasks of an array that have never run; those in one state are one line."""


def page(
    connection: sqlite3.Connection,
    *,
    states: Iterable[str] = (),
    project: str = "",
    user: str = "",
    after: int | None = None,
    limit: int = 100,
) -> WorkPage:
    """Live workloads, the oldest first; `folds` has the indices that a row stands for.

    Two indices of the store have what is shown, so that no task is read that is not.
    """
    limit = max(1, min(limit, PAGE_MAX))
    where, values = rows.filters(states, project, user)
    condition = "".join(f" AND {each}" for each in where)
    first = after or 0
    single = (
        f"SELECT id FROM workload INDEXED BY workload_single WHERE {rows.LIVE} "
        f"AND NOT ({FOLDABLE}) AND id > ?{condition} ORDER BY id LIMIT ?"
    )
    folded = (
        f"SELECT min(id) FROM workload INDEXED BY workload_fold WHERE {FOLDABLE}{condition} "
        "GROUP BY array_id, state HAVING min(id) > ?"
    )
    found = connection.execute(
        f"{rows.SELECT} WHERE id IN (SELECT id FROM ({single}) UNION ALL {folded}) "
        "ORDER BY id LIMIT ?",
        (first, *values, limit + 1, *values, first, limit + 1),
    ).fetchall()
    shown = [rows.row_of(each) for each in found[:limit]]
    folds = {}
    for row in shown:
        if row.array_id is not None and row.attempt == 0 and row.state in ("pending", "held"):
            indices = connection.execute(
                f"SELECT array_index FROM workload INDEXED BY workload_fold WHERE {FOLDABLE} "
                "AND array_id = ? AND state = ?",
                (row.array_id, str(row.state)),
            ).fetchall()
            if len(indices) > 1:
                folds[row.id] = format_indices(index for (index,) in indices)
    return WorkPage(shown, shown[-1].id if len(found) > limit else None, folds)
