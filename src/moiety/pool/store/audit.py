"""The audit log: who did what to which workload or project, and when."""

from __future__ import annotations

import sqlite3

from moiety.agent.system.users import name_of
from moiety.pool.model.records import PAGE_MAX, AuditPage, AuditRow


def page(
    connection: sqlite3.Connection,
    *,
    uid: int | None = None,
    act: str = "",
    after: int | None = None,
    limit: int = 100,
) -> AuditPage:
    """A page of it, the newest first; `after` is that of the page before."""
    limit = max(1, min(limit, PAGE_MAX))
    found = connection.execute(
        "SELECT id, at_s, uid, act, target FROM audit WHERE (?1 IS NULL OR id < ?1) "
        "AND (?2 IS NULL OR uid = ?2) AND (?3 = '' OR act = ?3) ORDER BY id DESC LIMIT ?4",
        (after, uid, act, limit + 1),
    ).fetchall()
    rows = [
        AuditRow(id=number, at_s=at_s, uid=who, user=name_of(who), act=what, target=target)
        for number, at_s, who, what, target in found[:limit]
    ]
    return AuditPage(rows, rows[-1].id if len(found) > limit else None)
