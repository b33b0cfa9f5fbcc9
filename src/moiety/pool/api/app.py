"""The application: the table of all routes, and how each is served."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moiety.agent.system.users import USERS
from moiety.model.errors import (
    BadArgument,
    InternalError,
    MoietyError,
    StoreBroken,
    SystemRefusal,
)
from moiety.pool.api.answers import refusal
from moiety.pool.api.openapi import encoded
from moiety.pool.api.peer import caller_of
from moiety.pool.api.roles import roles_of
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.api.routes import (
    acts,
    amend,
    arrays,
    attempts,
    audit,
    events,
    pool,
    projects,
    records,
    steps,
    work,
)
from moiety.pool.model.names import API_VERSION


async def on_document(*_: Any) -> Response:
    """This document."""
    return Response(openapi(), media_type="application/json")


@cache
def openapi() -> bytes:
    """The OpenAPI document of all routes."""
    return encoded(ROUTES)


ROUTES: Final[tuple[ApiRoute, ...]] = (
    *work.ROUTES,
    *pool.ROUTES,
    *projects.ROUTES,
    *acts.ROUTES,
    *arrays.ROUTES,
    *attempts.ROUTES,
    *steps.ROUTES,
    *audit.ROUTES,
    *events.ROUTES,
    *amend.ROUTES,
    *records.ROUTES,
    ApiRoute("GET", "/openapi.json", on_document, dict[str, Any]),
)
"""All routes of version 1; they are tried in this order."""


def app(served: ServedPool) -> Starlette:
    """The application of one pool."""
    return Starlette(
        routes=[
            Route(f"/{API_VERSION}{each.path}", partial(serve, served, each), methods=[each.method])
            for each in ROUTES
        ],
        exception_handlers={HTTPException: on_no_route},
    )


async def on_no_route(request: Request, error: Exception) -> Response:
    """Refuse a path or a method that no route has, in the parts of all other errors."""
    assert isinstance(error, HTTPException)
    asked = f"{request.method} {request.url.path[:80]}"
    problem = BadArgument(f"there is no {asked}", f"/{API_VERSION}/openapi.json has all routes")
    found = refusal(problem, error.status_code)
    found.headers.update(error.headers or {})
    return found


async def serve(served: ServedPool, route: ApiRoute, request: Request) -> Response:
    """Answer one request, whatever comes of it."""
    log: Any = structlog.get_logger()
    try:
        caller = caller_of(request, served.admins)
        await USERS.found(caller.uid)
        caller = replace(caller, roles=roles_of(served.reader))
        return await route.handler(served, request, caller)
    except MoietyError as error:
        return refusal(error)
    except (OSError, sqlite3.OperationalError) as error:
        log.exception("request_refused_by_system")
        cause = error if isinstance(error, OSError) else OSError(str(error))
        return refusal(SystemRefusal(cause))
    except sqlite3.DatabaseError as error:  # a page of it is damaged
        log.exception("store_damaged")
        return refusal(StoreBroken(str(served.paths.database), str(error)), 503)
    except Exception as error:
        log.exception("request_failed", path=request.url.path[:200])
        return refusal(InternalError(f"the pool failed on a request: {error}"))
