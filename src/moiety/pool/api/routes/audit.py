"""The route of the audit log, for administrators of the pool."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer, query_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.records import AuditPage
from moiety.pool.store import audit


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of the audit log are wanted."""

    uid: int | None = None
    """Only what this user did."""
    act: str = ""
    """Only this: `submit`, `cancel`, `apply`, ..."""
    after: int | None = None
    """The `after` of the page before."""
    limit: int = 100


async def on_audit(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Who did what, the newest first."""
    caller.must_be_admin("read the audit log")
    query = query_of(request, AuditQuery)
    return answer(
        audit.page(
            pool.reader, uid=query.uid, act=query.act, after=query.after, limit=query.limit or 1
        )
    )


ROUTES: Final = (ApiRoute("GET", "/audit", on_audit, AuditPage, query=AuditQuery),)
