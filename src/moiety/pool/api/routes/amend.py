"""Routes that change what was asked for, and that put work back into the queue."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import WorkStateWrong
from moiety.pool.api.answers import answer, body_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.resizing import resize
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.api.routes.acts import own
from moiety.pool.control.outcomes import CANCELLED, REQUEUED, REQUEUED_HELD
from moiety.pool.model.amendment import Amendment, Requeue
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS, WAITING, WorkState
from moiety.pool.store import amendments, changes, rows


async def on_amend(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Change what a workload asks for, and the part of its GPUs that one has that runs."""
    new = await body_of(request, Amendment)
    new.check()
    row = await own(pool, request, caller, "change")
    if new.priority is not UNSET and new.priority > max(row.priority, 0):
        caller.must_be_admin_in(row.project, "give work a priority above 0")
    if row.state in ENDS and new.is_for_living:
        raise WorkStateWrong(f"workload {row.id} is {row.state}", "submit it once more")
    if row.state not in WAITING and new.is_of_gpus:
        if new.is_for_waiting:
            raise WorkStateWrong(
                f"workload {row.id} is {row.state}: only the part of its GPUs can be changed",
                "that alone",
            )
        await resize(pool, row, amendments.parts_of(row, new))
        new = replace(new, gpu=UNSET, memory_bytes=UNSET)

    def work(connection: sqlite3.Connection) -> WorkRow:
        before = rows.workload(connection, row.id)  # it may have begun to run meanwhile
        if before.state not in WAITING and new.gives_more_time(before.time_limit_s):
            caller.must_be_admin_in(before.project, "give work that runs more time")
        return amendments.amend(connection, row.id, new)

    found = await pool.loop.write(work)
    if new.time_limit_s is not UNSET:  # another change may have come after this one
        pool.loop.running.limit(row.id, rows.workload(pool.reader, row.id).time_limit_s)
    pool.loop.changed()
    return answer(caller.shown(found))


async def on_requeue(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """End a workload that runs, and let it wait again."""
    how = await body_of(request, Requeue)
    row = await own(pool, request, caller, "requeue")
    if row.state in WAITING:
        raise WorkStateWrong(f"workload {row.id} is {row.state}: it waits already")
    if row.state in ENDS or row.intent == CANCELLED:
        raise WorkStateWrong(f"workload {row.id} is {row.state}", "submit it once more")
    intent = REQUEUED_HELD if how.hold else REQUEUED
    if row.state is WorkState.ENDING:
        await pool.loop.write(partial(changes.set_intent, number=row.id, intent=intent))
    else:
        row = await pool.loop.end(row.id, intent, f"requeued by {caller.user}")
    return answer(caller.shown(row))


ROUTES: Final = (
    ApiRoute("POST", "/workloads/{target}/amend", on_amend, WorkRow, body=Amendment),
    ApiRoute("POST", "/workloads/{target}/requeue", on_requeue, WorkRow, body=Requeue),
)
