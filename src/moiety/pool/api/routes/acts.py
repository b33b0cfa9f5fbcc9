"""Routes that change a workload: cancel, hold, release, suspend, resume."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.api.routes import arrays
from moiety.pool.model import holds
from moiety.pool.model.records import BY_USER, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, rows
from moiety.pool.store.targets import Target


async def own_target(pool: ServedPool, request: Request, caller: Caller, act: str) -> Target:
    """What a path names, which the caller may change; what is done is noted.

    Raises WorkUnknown, WorkAmbiguous or NotAllowed.
    """
    target = pool.target(request, caller)
    caller.must_own(target.row, act)
    await pool.note(caller, act, str(target.row.id))
    return target


async def on_cancel(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """End a workload, or take it out of the queue."""
    target = await own_target(pool, request, caller, "cancel")
    reason = f"cancelled by {caller.user}"
    if target.is_array:
        return answer(await arrays.cancel(pool, target, reason))
    return answer(caller.shown(await pool.loop.cancel(target.row.id, reason)))


async def on_hold(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Keep a waiting workload from starting."""
    target = await own_target(pool, request, caller, "hold")
    reason = holds.reason_of(caller.user)
    if target.is_array:
        return answer(await arrays.hold(pool, target, reason))
    return await _change(pool, caller, partial(changes.hold, number=target.row.id, reason=reason))


async def on_release(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Let a held workload start; what an administrator holds is for administrators to release."""
    target = await own_target(pool, request, caller, "release")
    if target.is_array:
        return answer(await arrays.release(pool, caller, target))

    def change(connection: sqlite3.Connection) -> WorkRow:
        row = rows.workload(connection, target.row.id)
        if row.state is WorkState.HELD:
            caller.must_release(row, row.reason)
        return changes.release(connection, target.row.id)

    return await _change(pool, caller, change)


async def on_suspend(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Take a running workload's turns away, and its memory off its GPUs, until it is resumed."""
    target = await own_target(pool, request, caller, "suspend")
    reason = f"suspended by {caller.user}"
    if target.is_array:
        return answer(await arrays.suspend(pool, target, reason))
    row = await pool.loop.suspended.suspend(target.row.id, BY_USER, reason)
    return answer(caller.shown(row))


async def on_resume(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Let a suspended workload go on as soon as its GPUs have room for it."""
    target = await own_target(pool, request, caller, "resume")
    reason = "it goes on when its GPUs have room"
    if target.is_array:
        return answer(await arrays.resume(pool, target, reason))
    row = await pool.loop.suspended.ask_to_resume(target.row.id, reason)
    return answer(caller.shown(row))


async def _change(
    pool: ServedPool, caller: Caller, change: Callable[[sqlite3.Connection], WorkRow]
) -> Response:
    found = await pool.loop.write(change)
    pool.loop.changed()
    return answer(caller.shown(found))


ROUTES: Final = (
    ApiRoute("POST", "/workloads/{target}/cancel", on_cancel, WorkRow),
    ApiRoute("POST", "/workloads/{target}/hold", on_hold, WorkRow),
    ApiRoute("POST", "/workloads/{target}/release", on_release, WorkRow),
    ApiRoute("POST", "/workloads/{target}/suspend", on_suspend, WorkRow),
    ApiRoute("POST", "/workloads/{target}/resume", on_resume, WorkRow),
)
