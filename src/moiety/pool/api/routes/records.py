"""Routes about workloads of the queue and of the past, as other front ends ask for them."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.api.answers import answer, query_of, states_of
from moiety.pool.api.foreseen import reasons_of, starts_of
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.records import PAGE_MAX, WorkPage, WorkRow
from moiety.pool.model.steps import StepRow
from moiety.pool.starter.records import Started, read_started
from moiety.pool.store import folding, rows, selection
from moiety.pool.store import steps as step_store
from moiety.pool.store.selection import WorkSelection

IDS_MAX: Final = 1000
STEPS_TOGETHER_MAX: Final = 10_000
"""The most steps of a page, unless one workload alone has more."""


class RecordsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which workloads are meant."""

    ids: str = ""
    """Numbers of workloads or arrays with commas between them; empty: all."""
    name: str = ""
    """Only the caller's own work of this name, unless that is an administrator."""
    user: str = ""
    project: str = ""
    state: str = ""
    """States with commas between them; empty: all."""
    since: int | None = None
    """With work that has ended since this time, in seconds since 1970."""
    after: int = 0
    """The `after` of the page before."""
    limit: int = PAGE_MAX
    why: bool = False
    """Whether the engine is asked why each of them waits."""
    start: bool = False
    """Whether the engine is asked when each of them is expected to begin."""
    steps: bool = False
    """Whether the steps of each of them are asked for, such as those of `srun`."""
    fold: bool = False
    """Whether one row may stand for the waiting tasks of an array; not with ids, name or since."""


class WaitingRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a workload waits."""

    kind: str = ""
    """The engine's reason, such as `gpus-full`."""
    text: str = ""
    """One sentence."""
    indices: str = ""
    """The tasks of its array that the row stands for."""
    expected_s: float | None = None
    """When it is expected to begin."""


class RecordsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Workloads by their numbers; `after` is what to ask for next, None: nothing follows."""

    rows: list[WorkRow]
    after: int | None = None
    waiting: dict[int, WaitingRecord] = {}
    """By number: why it waits, if that was asked for, and what the row stands for."""
    steps: dict[int, list[StepRow]] = {}
    """By number: the steps of its last start, if they were asked for."""


class MainProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a workload that was started first; its session has its number."""

    pid: int
    start_ticks: int
    """When it started, in clock ticks since the machine did."""


async def on_records(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """A page of workloads that live or have ended."""
    query = query_of(request, RecordsQuery)
    wanted = WorkSelection(
        ids=_numbers(query.ids),
        name=query.name,
        uid=None if caller.is_admin or not query.name else caller.uid,
        user=query.user,
        project=query.project,
        states=states_of(query.state),
        since_s=query.since,
    )
    limit = min(query.limit, PAGE_MAX) or 1
    if query.fold and not wanted.ids and not wanted.name and wanted.since_s is None:
        found = folding.page(
            pool.reader,
            states=wanted.states,
            project=wanted.project,
            user=wanted.user,
            after=query.after,
            limit=limit,
        )
    else:
        found = selection.page(pool.reader, wanted, query.after, limit)
    if query.steps and found.rows:
        found = _with_few_steps(pool, found)
    shown = [caller.shown(row) for row in found.rows]
    hidden = {row.id for row, seen in zip(found.rows, shown, strict=True) if seen is not row}
    steps = _steps_of(pool, shown, hidden) if query.steps else {}
    reasons = await reasons_of(pool, found.rows) if query.why else {}
    waiting = {n: WaitingRecord(kind=why.kind, text=why.text) for n, why in reasons.items()}
    for number, at in (await starts_of(pool, found.rows) if query.start else {}).items():
        if at.expected_s is not None:
            why = waiting.get(number, WaitingRecord())
            waiting[number] = msgspec.structs.replace(why, expected_s=at.expected_s)
    for number, indices in found.folds.items():
        why = waiting.get(number, WaitingRecord())
        waiting[number] = msgspec.structs.replace(why, indices=indices)
    return answer(RecordsPage(rows=shown, after=found.after, waiting=waiting, steps=steps))


def _with_few_steps(pool: ServedPool, page: WorkPage) -> WorkPage:
    """The page, or its first part, so that no answer has too many steps."""
    numbers = [row.id for row in page.rows]
    fits = step_store.how_many_fit(pool.reader, numbers, STEPS_TOGETHER_MAX)
    if fits == len(numbers):
        return page
    return msgspec.structs.replace(page, rows=page.rows[:fits], after=numbers[fits - 1])


def _steps_of(pool: ServedPool, rows_: list[WorkRow], hidden: set[int]) -> dict[int, list[StepRow]]:
    """The steps of rows; those of `hidden` rows have neither a name nor a command."""
    found = step_store.of(pool.reader, [row.id for row in rows_])
    return {
        number: [msgspec.structs.replace(step, name="", command="") for step in steps]
        if number in hidden
        else steps
        for number, steps in found.items()
    }


def _numbers(text: str) -> list[int]:
    parts = [part for part in text.split(",") if part]
    if len(parts) > IDS_MAX or not all(
        part.isascii() and part.isdecimal() and len(part) < 18 for part in parts
    ):
        raise BadArgument("ids are no numbers, or too many", f"ids=1,2; at most {IDS_MAX}")
    return [int(part) for part in parts]


async def on_process(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """The main process of a workload that runs: its user may signal it."""
    row = pool.find(request, caller)
    caller.must_own(row, "signal")
    started = read_started(pool.paths.of_workload(row.id))
    if row.began_s is None or not isinstance(started, Started) or started.attempt != row.attempt:
        raise WorkStateWrong(f"workload {row.id} is {row.state}: it has no process")
    child = started.child
    return answer(MainProcess(pid=child.pid, start_ticks=child.start_ticks))


async def on_script(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """The script that was submitted, as text."""
    row = pool.find(request, caller)
    caller.must_own(row, "read the script of")
    return answer(rows.submission(pool.reader, row.id).script)


ROUTES: Final = (
    ApiRoute("GET", "/records", on_records, RecordsPage, query=RecordsQuery),
    ApiRoute("GET", "/workloads/{target}/process", on_process, MainProcess),
    ApiRoute("GET", "/workloads/{target}/script", on_script, str),
)
