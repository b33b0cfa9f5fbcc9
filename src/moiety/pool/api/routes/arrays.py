"""What requests do to the tasks of an array; each answers with the row of one of them."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import WorkStateWrong
from moiety.pool.api.answers import answer
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.records import BY_USER, ArrayStatus, WorkRow
from moiety.pool.model.states import ENDS
from moiety.pool.store import array_changes, rows, targets
from moiety.pool.store.targets import Target


async def on_array(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """How many tasks of an array are in each state."""
    target = pool.target(request, caller)
    row = caller.shown(target.row)
    counts = targets.counts(pool.reader, target)
    return answer(ArrayStatus(id=target.array_id or row.id, name=row.name, counts=counts))


async def cancel(pool: ServedPool, target: Target, reason: str) -> WorkRow:
    """Take tasks out of the queue, and end those that have GPUs."""
    change = partial(array_changes.cancel_waiting, target=target, reason=reason)
    for row in await pool.loop.write(partial(change, now_s=time.time())):
        await pool.loop.cancel(row.id, reason)
    return _changed(pool, target)


async def hold(pool: ServedPool, target: Target, reason: str) -> WorkRow:
    """Keep tasks that wait from starting."""
    await pool.loop.write(partial(array_changes.hold, target=target, reason=reason))
    return _changed(pool, target)


async def release(pool: ServedPool, caller: Caller, target: Target) -> WorkRow:
    """Let held tasks start; raises NotAllowed, and releases none, if an administrator holds one."""

    def change(connection: sqlite3.Connection) -> None:
        for reason in array_changes.why_held(connection, target):
            caller.must_release(target.row, reason)
        array_changes.release(connection, target)

    await pool.loop.write(change)
    return _changed(pool, target)


async def suspend(pool: ServedPool, target: Target, reason: str) -> WorkRow:
    """Suspend the tasks that run; raises WorkStateWrong if none does."""
    refused: WorkStateWrong | None = None
    done = 0
    for row in array_changes.active(pool.reader, target):
        try:
            await pool.loop.suspended.suspend(row.id, BY_USER, reason)
            done += 1
        except WorkStateWrong as error:  # it has just begun, or ended
            refused = error
    if not done:
        raise refused or WorkStateWrong("no task of it runs", "`moiety hold`")
    return _changed(pool, target)


async def resume(pool: ServedPool, target: Target, reason: str) -> WorkRow:
    """Let suspended tasks go on once their GPUs have room."""
    for row in array_changes.active(pool.reader, target):
        with contextlib.suppress(WorkStateWrong):  # it is not suspended
            await pool.loop.suspended.ask_to_resume(row.id, reason)
    return _changed(pool, target)


async def wait(pool: ServedPool, target: Target, timeout_s: float) -> WorkRow:
    """A task that is not over, after this time; if all are, one that did not end well."""
    end_s = time.monotonic() + timeout_s
    while (row := targets.first_live(pool.reader, target)) is not None:
        while row.state not in ENDS:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return row
            await pool.loop.next_change(left_s)
            row = rows.workload(pool.reader, row.id)
    return targets.worst(pool.reader, target)


def _changed(pool: ServedPool, target: Target) -> WorkRow:
    pool.loop.changed()
    return rows.workload(pool.reader, target.row.id)


ROUTES: Final = (ApiRoute("GET", "/workloads/{target}/array", on_array, ArrayStatus),)
