"""The routes of version 1, and what each answers."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moiety.agent.system.users import USERS
from moiety.model.errors import BadArgument, InternalError, MoietyError, SystemRefusal
from moiety.pool.api.answers import answer, body_of, number_of, refusal
from moiety.pool.api.peer import Caller, caller_of
from moiety.pool.control.loop import PoolLoop
from moiety.pool.control.outcomes import CANCELLED
from moiety.pool.launch.account import account_of
from moiety.pool.model.records import (
    API_VERSION,
    PAGE_MAX,
    Accepted,
    PoolStatus,
    Projects,
    ProjectUse,
    Submission,
    WorkExplanation,
    WorkPage,
    WorkRow,
)
from moiety.pool.model.states import ACTIVE, ENDS, WAITING, WorkState
from moiety.pool.paths import PoolPaths
from moiety.pool.store import changes, rows
from moiety.version import __version__

WAIT_MAX_S: Final = 60
Handler = Callable[[Request, Caller], Awaitable[Response]]


class PoolRoutes:
    """Answers requests about one pool."""

    def __init__(
        self,
        paths: PoolPaths,
        loop: PoolLoop,
        reader: sqlite3.Connection,
        stop: Callable[[], None],
    ) -> None:
        """`stop` ends the server."""
        self._paths = paths
        self._loop = loop
        self._reader = reader
        self._stop = stop
        self._began_s = time.monotonic()
        self._log: Any = structlog.get_logger()

    def app(self) -> Starlette:
        """The application with all routes."""
        table: tuple[tuple[str, str, Handler], ...] = (
            ("GET", "/status", self.on_status),
            ("POST", "/stop", self.on_stop),
            ("GET", "/projects", self.on_projects),
            ("PUT", "/projects", self.on_apply),
            ("POST", "/workloads", self.on_submit),
            ("GET", "/workloads", self.on_list),
            ("GET", "/workloads/{target}", self.on_show),
            ("GET", "/workloads/{target}/wait", self.on_wait),
            ("GET", "/workloads/{target}/explain", self.on_explain),
            ("POST", "/workloads/{target}/cancel", self.on_cancel),
            ("POST", "/workloads/{target}/hold", self.on_hold),
            ("POST", "/workloads/{target}/release", self.on_release),
        )
        return Starlette(
            routes=[
                Route(f"/{API_VERSION}{path}", partial(self._serve, handler), methods=[method])
                for method, path, handler in table
            ]
        )

    async def _serve(self, handler: Handler, request: Request) -> Response:
        try:
            caller = caller_of(request)
            await USERS.found(caller.uid)
            return await handler(request, caller)
        except MoietyError as error:
            return refusal(error)
        except (OSError, sqlite3.OperationalError) as error:
            self._log.exception("request_refused_by_system")
            cause = error if isinstance(error, OSError) else OSError(str(error))
            return refusal(SystemRefusal(cause))
        except Exception as error:
            self._log.exception("request_failed", path=request.url.path[:200])
            return refusal(InternalError(f"the pool failed on a request: {error}"))

    # The pool

    async def on_status(self, request: Request, caller: Caller) -> Response:
        """What there is, and what each project has."""
        active = rows.live(self._reader, ACTIVE)
        milli: Counter[str] = Counter()
        running: Counter[str] = Counter()
        for row in active:
            running[row.project] += 1
            milli[row.project] += row.gpu_milli * len(row.cards)
        waiting = rows.waiting_by_project(self._reader)
        return answer(
            PoolStatus(
                pid=os.getpid(),
                version=__version__,
                agent=str(self._paths.agent.path),
                up_s=time.monotonic() - self._began_s,
                gpus=len(self._loop.machine.cards) if self._loop.machine else 0,
                counts=rows.counts(self._reader),
                start_refused=self._loop.start_refused,
                projects=[
                    ProjectUse(
                        project=each,
                        running=running[each.name],
                        waiting=waiting.get(each.name, 0),
                        gpu_milli=milli[each.name],
                    )
                    for each in rows.projects(self._reader)
                ],
            )
        )

    async def on_stop(self, request: Request, caller: Caller) -> Response:
        """End the server; workloads run on."""
        caller.must_be_admin("end the pool")
        running = len(self._loop.running.by_number)
        self._stop()
        return answer({"running": running})

    async def on_projects(self, request: Request, caller: Caller) -> Response:
        """All projects."""
        return answer(Projects(rows.projects(self._reader)))

    async def on_apply(self, request: Request, caller: Caller) -> Response:
        """Make or change projects."""
        caller.must_be_admin("change projects")
        wanted = await body_of(request, Projects)

        def work(connection: sqlite3.Connection) -> list[str]:
            lines = changes.apply(connection, wanted.projects)
            changes.audit(connection, caller.uid, "apply", "; ".join(lines), time.time())
            return lines

        lines = await self._loop.write(work)
        self._loop.changed()
        return answer({"changes": lines})

    # Workloads

    async def on_submit(self, request: Request, caller: Caller) -> Response:
        """Take a workload; it is durable before the answer."""
        asked = await body_of(request, Submission)
        asked.check()
        account_of(caller.uid)  # else it could never start
        caller.must_be_of(rows.project(self._reader, asked.project))
        if asked.priority > 0:
            caller.must_be_admin("give work a priority above 0")
        user, now_s = caller.user, time.time()
        number = await self._loop.write(
            lambda connection: changes.submit(connection, asked, caller.uid, user, now_s)
        )
        self._loop.changed()
        return answer(Accepted(number), 201)

    async def on_list(self, request: Request, caller: Caller) -> Response:
        """A page of live workloads; with `over=1`, of ended ones."""
        query = request.query_params
        states = [state for state in query.get("state", "").split(",") if state]
        if unknown := set(states) - set(map(str, WorkState)):
            raise BadArgument(f"{min(unknown)[:40]} is no state", ", ".join(map(str, WorkState)))
        found = rows.page(
            self._reader,
            over=query.get("over") == "1",
            states=states,
            project=query.get("project", ""),
            user=query.get("user", ""),
            after=number_of(request, "after", None, 1 << 60),
            limit=number_of(request, "limit", 100, PAGE_MAX) or 1,
        )
        shown = [caller.shown(row) for row in found.rows]
        if query.get("why") == "1":
            shown = await self._with_reasons(shown)
        return answer(WorkPage(shown, found.after))

    async def _with_reasons(self, shown: list[WorkRow]) -> list[WorkRow]:
        """The rows with the engine's reasons where they wait; as they are if it does not answer."""
        numbers = [row.id for row in shown if row.state is WorkState.PENDING and not row.reason]
        if not numbers:
            return shown
        try:
            found = await self._loop.reasons(numbers)
        except (MoietyError, OSError):
            return shown
        return [
            msgspec.structs.replace(row, reason=found[row.id].text) if row.id in found else row
            for row in shown
        ]

    async def on_show(self, request: Request, caller: Caller) -> Response:
        """One workload."""
        return answer(caller.shown(self._find(request, caller)))

    async def on_wait(self, request: Request, caller: Caller) -> Response:
        """One workload once it is over, or as it is after `timeout` seconds."""
        row = self._find(request, caller)
        caller.must_own(row, "wait for")
        end_s = time.monotonic() + (number_of(request, "timeout", WAIT_MAX_S, WAIT_MAX_S) or 0)
        while row.state not in ENDS and (left_s := end_s - time.monotonic()) > 0:
            await self._loop.next_change(left_s)
            row = rows.workload(self._reader, row.id)
        return answer(caller.shown(row))

    async def on_explain(self, request: Request, caller: Caller) -> Response:
        """Why a workload waits, in the engine's words."""
        row = caller.shown(self._find(request, caller))
        kind, text, is_final, numbers = "", "", False, dict[str, int]()
        if row.state is WorkState.PENDING:
            found = (await self._loop.reasons([row.id])).get(row.id)
            left_s = row.not_before_s - time.time()
            if found is not None:
                kind, text = found.kind, found.text
                is_final, numbers = found.is_final, found.numbers
            elif left_s > 0:
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
            )
        )

    async def on_cancel(self, request: Request, caller: Caller) -> Response:
        """End a workload, or take it out of the queue."""
        row = self._find(request, caller)
        caller.must_own(row, "cancel")
        await self._note(caller, "cancel", row)
        reason = f"cancelled by {caller.user}"
        found = await self._loop.write(
            lambda connection: changes.cancel_waiting(connection, row.id, reason, time.time())
        )
        if found is not None:
            self._loop.changed()
            return answer(caller.shown(found))
        row = rows.workload(self._reader, row.id)
        if row.state in (WorkState.STARTING, WorkState.RUNNING):
            row = await self._loop.end(row.id, CANCELLED, reason)
        elif row.state is WorkState.ENDING:  # it would come back
            await self._loop.write(partial(changes.set_intent, number=row.id, intent=CANCELLED))
        return answer(caller.shown(row))

    async def on_hold(self, request: Request, caller: Caller) -> Response:
        """Keep a waiting workload from starting."""
        row = self._find(request, caller)
        caller.must_own(row, "hold")
        await self._note(caller, "hold", row)
        if row.state is WorkState.HELD:
            return answer(caller.shown(row))
        return await self._change(caller, row, WorkState.HELD, reason=f"held by {caller.user}")

    async def on_release(self, request: Request, caller: Caller) -> Response:
        """Let a held workload start."""
        row = self._find(request, caller)
        caller.must_own(row, "release")
        await self._note(caller, "release", row)
        if row.state is WorkState.PENDING:
            return answer(caller.shown(row))
        return await self._change(
            caller, row, WorkState.PENDING, reason="", failures=0, not_before_s=0.0
        )

    async def _change(
        self, caller: Caller, row: WorkRow, state: WorkState, **values: Any
    ) -> Response:
        if row.state not in WAITING:
            raise changes.wrong_state(row, state)
        changed = partial(changes.transition, number=row.id, state=state, **values)
        found: WorkRow = await self._loop.write(changed)
        self._loop.changed()
        return answer(caller.shown(found))

    def _find(self, request: Request, caller: Caller) -> WorkRow:
        """By number; by name only the caller's own, unless that is an administrator."""
        whose = None if caller.is_admin else caller.uid
        return rows.find(self._reader, request.path_params["target"], whose)

    async def _note(self, caller: Caller, act: str, row: WorkRow) -> None:
        await self._loop.write(
            lambda connection: changes.audit(connection, caller.uid, act, str(row.id), time.time())
        )
