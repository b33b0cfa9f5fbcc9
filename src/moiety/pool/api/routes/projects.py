"""Routes of projects: what there is, and what administrators change."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer, body_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.project_rows import Projects, ProjectsDiff
from moiety.pool.store import changes, project_check, rows


async def on_projects(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """All projects."""
    return answer(Projects(rows.projects(pool.reader)))


async def on_apply(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Make or change projects; those that are not named stay."""
    caller.must_be_admin("change projects")
    wanted = await body_of(request, Projects)

    def work(connection: sqlite3.Connection) -> list[str]:
        lines = changes.apply(connection, wanted.projects)
        changes.audit(connection, caller.uid, "apply", "; ".join(lines), time.time())
        return lines

    lines = await pool.loop.write(work)
    pool.loop.changed()
    return answer({"changes": lines})


async def on_diff(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """What an `apply` would change, and which projects would have too much then."""
    caller.must_be_admin("change projects")
    wanted = await body_of(request, Projects)
    return answer(project_check.diff(pool.reader, wanted.projects))


ROUTES: Final = (
    ApiRoute("GET", "/projects", on_projects, Projects),
    ApiRoute("POST", "/projects/diff", on_diff, ProjectsDiff, body=Projects),
    ApiRoute("PUT", "/projects", on_apply, dict[str, list[str]], body=Projects),
)
