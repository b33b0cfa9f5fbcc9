"""Routes that change what was asked for, and that put work back into the queue."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import MoietyError, WorkStateWrong
from moiety.pool.api.answers import answer, body_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.resizing import resize
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.api.routes.acts import own_target
from moiety.pool.control.outcomes import CANCELLED, REQUEUED, REQUEUED_HELD
from moiety.pool.model.amendment import Amendment, Requeue
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS, WAITING, WorkState
from moiety.pool.store import amendments, array_changes, changes, rows
from moiety.pool.store.targets import Target


async def on_amend(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Change what work asks for, and the part of its GPUs that one has that runs.

    Each task of an array is changed that can be; then the first refusal is raised.
    """
    new = await body_of(request, Amendment)
    new.check()
    target = await own_target(pool, request, caller, "change")
    refused: list[MoietyError] = []
    changed: list[tuple[int, Amendment]] = []
    for row in _rows(pool, target):
        with _noted(refused):
            changed.append((row.id, await _carry_out(pool, caller, row, new)))

    def work(connection: sqlite3.Connection) -> None:
        for number, change in changed:
            with _noted(refused):
                _write(connection, caller, number, change)

    await pool.loop.write(work)
    if new.time_limit_s is not UNSET:  # another change may have come after this one
        for number, _ in changed:
            with _noted(refused):
                pool.loop.running.limit(number, rows.workload(pool.reader, number).time_limit_s)
    pool.loop.changed()
    if refused:
        raise refused[0]
    return answer(caller.shown(rows.workload(pool.reader, target.row.id)))


def _rows(pool: ServedPool, target: Target) -> list[WorkRow]:
    """What is to be changed: of an array the tasks that are not over, if any is not."""
    live = array_changes.live(pool.reader, target) if target.is_array else []
    return live or [target.row]


@contextlib.contextmanager
def _noted(refused: list[MoietyError]) -> Iterator[None]:
    """Go on after a refusal, which is noted."""
    try:
        yield
    except MoietyError as error:
        refused.append(error)


async def _carry_out(pool: ServedPool, caller: Caller, row: WorkRow, new: Amendment) -> Amendment:
    """Change what a workload has now; returns what is left to be written down."""
    if new.priority is not UNSET and new.priority > max(row.priority, 0):
        caller.must_be_admin_in(row.project, "give work a priority above 0")
    if row.state in ENDS and new.is_for_living:
        raise WorkStateWrong(f"workload {row.id} is {row.state}", "submit it once more")
    if row.state in WAITING or not new.is_of_gpus:
        return new
    if new.is_for_waiting:
        raise WorkStateWrong(
            f"workload {row.id} is {row.state}: only the part of its GPUs can be changed",
            "that alone",
        )
    await resize(pool, row, amendments.parts_of(row, new))
    return replace(new, gpu=UNSET, memory_bytes=UNSET)


def _write(connection: sqlite3.Connection, caller: Caller, number: int, new: Amendment) -> None:
    before = rows.workload(connection, number)  # it may have begun to run meanwhile
    if before.state not in WAITING and new.gives_more_time(before.time_limit_s):
        caller.must_be_admin_in(before.project, "give work that runs more time")
    amendments.amend(connection, number, new)


async def on_requeue(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """End work that runs, and let it wait again; of an array each task that runs."""
    how = await body_of(request, Requeue)
    target = await own_target(pool, request, caller, "requeue")
    reason = f"requeued by {caller.user}"
    intent = REQUEUED_HELD if how.hold else REQUEUED
    refused: list[MoietyError] = []
    found = array_changes.active(pool.reader, target) if target.is_array else []
    for row in found or [target.row]:
        with _noted(refused):
            await _requeue(pool, row, intent, reason)
    if refused:
        raise refused[0]
    return answer(caller.shown(rows.workload(pool.reader, target.row.id)))


async def _requeue(pool: ServedPool, row: WorkRow, intent: str, reason: str) -> None:
    if row.state in WAITING:
        raise WorkStateWrong(f"workload {row.id} is {row.state}: it waits already")
    if row.state in ENDS or row.intent == CANCELLED:
        raise WorkStateWrong(f"workload {row.id} is {row.state}", "submit it once more")
    if row.state is WorkState.ENDING:
        await pool.loop.write(partial(changes.set_intent, number=row.id, intent=intent))
    else:
        await pool.loop.end(row.id, intent, reason)


ROUTES: Final = (
    ApiRoute("POST", "/workloads/{target}/amend", on_amend, WorkRow, body=Amendment),
    ApiRoute("POST", "/workloads/{target}/requeue", on_requeue, WorkRow, body=Requeue),
)
