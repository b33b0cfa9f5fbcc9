"""Writes how a workload is suspended and resumed: each step is a state of its own."""

from __future__ import annotations

import sqlite3

from moiety.model.errors import WorkStateWrong
from moiety.pool.model.records import BY_USER, RESUMES, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.store import rows
from moiety.pool.store.changes import transition

SUSPENDABLE = frozenset({WorkState.RUNNING, WorkState.RESUMING})


def begin(connection: sqlite3.Connection, number: int, intent: str, reason: str) -> WorkRow:
    """Begin to suspend a workload that runs; one that is suspended already keeps its state.

    `intent` is who lets it go on: BY_USER, or RESUMES. Raises WorkUnknown and WorkStateWrong.
    """
    before = rows.workload(connection, number)
    if before.state in SUSPENDABLE:
        return transition(connection, number, WorkState.SUSPENDING, intent=intent, reason=reason)
    if before.state in (WorkState.SUSPENDING, WorkState.SUSPENDED):
        if intent == BY_USER:  # a user's word stands above the engine's
            return _note(connection, before, intent, reason)
        return before
    hint = "`moiety cancel`, or wait"
    if before.state is WorkState.PENDING:
        hint = f"`moiety hold {number}`: it has not begun"
    raise WorkStateWrong(
        f"workload {number} is {before.state}: only work that runs can be suspended", hint
    )


def is_over(
    connection: sqlite3.Connection, number: int, attempt: int, reason: str, now_s: float
) -> WorkRow | None:
    """All of a workload that can leave has left; None if that is not wanted any more."""
    before = rows.workload(connection, number)
    if before.state is not WorkState.SUSPENDING or before.attempt != attempt:
        return None
    since_s = now_s if before.suspended_since_s is None else before.suspended_since_s
    return transition(
        connection, number, WorkState.SUSPENDED, reason=reason, suspended_since_s=since_s
    )


def ask_to_resume(connection: sqlite3.Connection, number: int, reason: str) -> WorkRow:
    """Let a suspended workload go on as soon as its GPUs have room; raises WorkStateWrong."""
    before = rows.workload(connection, number)
    if before.state in (WorkState.SUSPENDING, WorkState.SUSPENDED):
        return _note(connection, before, RESUMES, reason)
    if before.state in (WorkState.RUNNING, WorkState.RESUMING):
        return before
    raise WorkStateWrong(
        f"workload {number} is {before.state}, and not suspended", "`moiety queue`"
    )


def resume(connection: sqlite3.Connection, number: int, attempt: int) -> WorkRow | None:
    """Commit that a suspended workload goes on on its GPUs; None if it is not to any more."""
    before = rows.workload(connection, number)
    is_due = before.state is WorkState.SUSPENDED and before.intent == RESUMES
    if not is_due or before.attempt != attempt:
        return None
    return transition(connection, number, WorkState.RESUMING, reason="")


def resumed(
    connection: sqlite3.Connection, number: int, attempt: int, now_s: float
) -> WorkRow | None:
    """A workload runs again; None if it ends, or is suspended again."""
    before = rows.workload(connection, number)
    if before.state is not WorkState.RESUMING or before.attempt != attempt:
        return None
    since_s = now_s if before.suspended_since_s is None else before.suspended_since_s
    return transition(
        connection,
        number,
        WorkState.RUNNING,
        intent="",
        suspended_s=before.suspended_s + max(0.0, now_s - since_s),
        suspended_since_s=None,
    )


def is_any_to_resume(connection: sqlite3.Connection) -> bool:
    """Whether anything suspended waits for its GPUs."""
    found = connection.execute(
        f"SELECT 1 FROM workload WHERE {rows.LIVE} AND state = 'suspended' AND intent = ? LIMIT 1",
        (RESUMES,),
    ).fetchone()
    return found is not None


def _note(connection: sqlite3.Connection, before: WorkRow, intent: str, reason: str) -> WorkRow:
    """Change why a workload is suspended, and not its state."""
    connection.execute(
        "UPDATE workload SET intent = ?, reason = ?, "
        "changed = (SELECT max(changed) + 1 FROM workload) WHERE id = ?",
        (intent, reason, before.id),
    )
    return rows.workload(connection, before.id)
