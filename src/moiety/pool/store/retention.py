"""Deletes what ended long ago, a little at a time, so that submissions never wait for it."""

from __future__ import annotations

import sqlite3
from typing import Final

from moiety.pool.store.rows import LIVE

AT_ONCE: Final = 200
"""Workloads, and lines of the audit log, that one transaction deletes at most."""
OLD: Final = f"""
SELECT id FROM workload AS old
 WHERE ended_s IS NOT NULL AND ended_s < ?
   AND changed < (SELECT max(changed) FROM workload)
   AND NOT EXISTS (
     SELECT 1 FROM dependency WHERE target IN (old.id, old.array_id) AND target > 0)
   AND NOT EXISTS (SELECT 1 FROM workload WHERE array_id = old.array_id AND {LIVE})
 ORDER BY ended_s LIMIT {AT_ONCE}
"""
"""What may be deleted: nothing waits for it, its array is over, and the last change stays.

Readers ask for what came after a change, so no number of a change may be given twice.
"""


def delete_old(connection: sqlite3.Connection, before_s: float) -> int:
    """Delete some of the workloads that ended, and of what was done, before this; how many."""
    numbers = connection.execute(OLD, (before_s,)).fetchall()
    for table, column in (
        ("dependency", "owner"), ("step", "workload"), ("attempt", "workload"),
        ("body", "workload"), ("workload", "id"),
    ):  # fmt: skip
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", numbers)
    audited = connection.execute(
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id <= "
        "(SELECT min(id) FROM audit) + ? AND at_s < ?)",
        (AT_ONCE, before_s),
    ).rowcount
    return len(numbers) + max(audited, 0)
