"""The route by which a step of a workload is told: `srun` calls it, as the workload's user."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer, body_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.steps import StepReport, StepRow
from moiety.pool.store import steps


async def on_step(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Write down that a step of a workload has begun, or how it ended; only its user may."""
    row = pool.find(request, caller)
    caller.must_be_its_user(row, "tell steps of")
    report = await body_of(request, StepReport)
    report.check()
    await pool.loop.write(partial(steps.tell, number=row.id, report=report))
    return answer(report.step)


ROUTES: Final = (ApiRoute("POST", "/workloads/{target}/steps", on_step, StepRow, body=StepReport),)
"""Routes about the steps of workloads; `GET /records` shows them."""
