"""The route that shows how often a workload was started, and what became of it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.records import AttemptRow
from moiety.pool.store import attempts


async def on_attempts(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """The attempts of a workload, the first one first."""
    row = pool.find(request, caller)
    caller.must_own(row, "see the attempts of")
    return answer(attempts.of(pool.reader, row.id))


ROUTES: Final = (ApiRoute("GET", "/workloads/{target}/attempts", on_attempts, list[AttemptRow]),)
