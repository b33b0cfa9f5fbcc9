"""Routes that take workloads and show them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer, body_of, query_of, states_of
from moiety.pool.api.foreseen import reasons_of, starts_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.api.routes import arrays
from moiety.pool.engine.messages import ExpectedStart
from moiety.pool.model.arrays import parse_array
from moiety.pool.model.records import (
    PAGE_MAX,
    RETRY_MAX_S,
    Accepted,
    Submission,
    WorkExplanation,
    WorkPage,
    WorkRow,
)
from moiety.pool.model.states import ENDS, WorkState
from moiety.pool.store import dependencies, folding, rows, turns

WAIT_MAX_S: Final = 60
ACCOUNT_S: Final = 10.0
"""For how long it is known that a user has an account; a start looks again."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which workloads a list has."""

    over: bool = False
    """Those that have ended, the newest first; else those that live, the oldest first."""
    state: str = ""
    """States with commas between them; empty: all."""
    project: str = ""
    user: str = ""
    after: int | None = None
    """The `after` of the page before."""
    limit: int = 100
    fold: bool = False
    """Whether one row stands for the tasks of an array that have never run."""
    why: bool = False
    """Whether the engine is asked for the reason why each of them waits."""
    start: bool = False
    """Whether it is asked when each of them is expected to begin."""


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How long the answer may take."""

    timeout: int = WAIT_MAX_S
    """Seconds, at most 60."""
    while_state: str = ""
    """Wait only while it is in this state; empty: until it is over."""


async def on_submit(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Take a workload; it is durable before the answer."""
    asked = await body_of(request, Submission)
    asked.check()
    _must_be_served(pool, caller.uid)
    caller.must_be_of(rows.project(pool.reader, asked.project))
    if asked.depends:
        for row in dependencies.targets_of(pool.reader, asked.depends):
            caller.must_own(row, "wait for")
    if asked.priority > 0:
        caller.must_be_admin_in(asked.project, "give work a priority above 0")
    user, now_s = caller.user, time.time()
    number = await pool.loop.write(
        lambda connection: turns.submit(connection, asked, caller.uid, user, now_s, pool.rules)
    )
    pool.loop.changed()
    tasks = len(parse_array(asked.array).indices) if asked.array else None
    return answer(Accepted(number, tasks), 201)


def _must_be_served(pool: ServedPool, uid: int) -> None:
    """Raise NotAllowed for a user whose programs could never start; the tables are slow to ask."""
    now_s = time.monotonic()
    if pool.accounts.get(uid, 0.0) <= now_s:
        pool.loop.must_serve(uid)
        pool.accounts[uid] = now_s + ACCOUNT_S


async def on_list(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """A page of live workloads, or of ended ones."""
    query = query_of(request, ListQuery)
    read: Callable[..., WorkPage] = partial(rows.page, over=query.over)
    if query.fold and not query.over:
        read = folding.page
    found = read(
        pool.reader,
        states=states_of(query.state),
        project=query.project,
        user=query.user,
        after=query.after,
        limit=min(query.limit, PAGE_MAX) or 1,
    )
    shown = [caller.shown(row) for row in found.rows]
    if query.why:
        found_why = await reasons_of(pool, [row for row in shown if not row.reason])
        shown = [
            replace(row, reason=why.text) if (why := found_why.get(row.id)) else row
            for row in shown
        ]
    if query.start:
        starts = await starts_of(pool, shown)
        shown = [_expected(row, at) if (at := starts.get(row.id)) else row for row in shown]
    notes = pool.loop.cards.notes(pool.loop.machine)
    return answer(WorkPage(shown, found.after, found.folds, notes))


def _expected(row: WorkRow, at: ExpectedStart) -> WorkRow:
    return replace(
        row,
        expected_start_s=at.expected_s,
        expected_low_s=at.low_s,
        expected_high_s=at.high_s,
    )


async def on_show(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """One workload."""
    return answer(caller.shown(pool.find(request, caller)))


async def on_wait(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """One workload once it is over, or as it is after `timeout` seconds."""
    target = pool.target(request, caller)
    row = target.row
    caller.must_own(row, "wait for")
    query = query_of(request, WaitQuery)
    wait_s = min(query.timeout, WAIT_MAX_S)
    if target.is_array:
        return answer(await arrays.wait(pool, target, wait_s))
    end_s = time.monotonic() + wait_s
    while row.state not in ENDS and (left_s := end_s - time.monotonic()) > 0:
        if query.while_state and row.state != query.while_state:
            break
        await pool.loop.next_change(left_s)
        row = rows.workload(pool.reader, row.id)
    return answer(caller.shown(row))


async def on_explain(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """Why a workload waits, in the engine's words."""
    row = caller.shown(pool.find(request, caller))
    kind, text, is_final, numbers = "", "", False, dict[str, int]()
    start = ExpectedStart()
    if row.state is WorkState.PENDING:
        answered = await pool.loop.explain(row.id)
        found, start = answered.reason, answered.start
        left_s = row.not_before_s - time.time()
        if found is not None:
            kind, text = found.kind, found.text
            is_final, numbers = found.is_final, found.numbers
        elif 0 < left_s <= RETRY_MAX_S:
            why = row.reason or "its start failed"
            kind, text = "back-off", f"{why}; it is tried again in {left_s:.0f} s"
        else:
            kind, text = "not-yet", "there is room, and it is next"
    return answer(
        WorkExplanation(
            id=row.id,
            state=row.state,
            kind=kind,
            text=text or row.reason,
            is_final=is_final,
            numbers=numbers,
            expected_start_s=start.expected_s,
            expected_low_s=start.low_s,
            expected_high_s=start.high_s,
        )
    )


ROUTES: Final = (
    ApiRoute("POST", "/workloads", on_submit, Accepted, body=Submission, status=201),
    ApiRoute("GET", "/workloads", on_list, WorkPage, query=ListQuery),
    ApiRoute("GET", "/workloads/{target}", on_show, WorkRow),
    ApiRoute("GET", "/workloads/{target}/wait", on_wait, WorkRow, query=WaitQuery),
    ApiRoute("GET", "/workloads/{target}/explain", on_explain, WorkExplanation),
)
