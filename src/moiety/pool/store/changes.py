"""Changes the store: every state of a workload is written here, by the one writer."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.model import holds
from moiety.pool.model.names import NAME
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.records import Submission, WorkRow, shape_of
from moiety.pool.model.states import ACTIVE, ENDS, WAITING, WorkState, may_follow
from moiety.pool.store import dependencies, project_check, rows
from moiety.pool.store.insertion import insert


def submit(
    connection: sqlite3.Connection, asked: Submission, uid: int, user: str, now_s: float
) -> int:
    """Write down a submission with its environment and script; returns its number.

    Raises ProjectUnknown, or BadArgument for a project in which nothing can run.
    """
    project = rows.project(connection, asked.project)
    below = [each.name for each in rows.projects(connection) if each.parent == project.name]
    if below:
        raise BadArgument(
            f"project {project.name} has projects below it, and runs nothing itself",
            f"one of these: {', '.join(below)}",
        )
    milli, memory_mib = shape_of(asked)
    state = WorkState.HELD if asked.hold else WorkState.PENDING
    values = {
        "name": asked.name or name_of(asked.argv[0]),
        "project": asked.project,
        "uid": uid,
        "user": user,
        "state": str(state),
        "reason": holds.BY_ITS_USER if asked.hold else "",
        "gpus": asked.gpus,
        "gpu_milli": milli,
        "gpu_memory_mib": memory_mib,
        "memory_limit_mib": asked.memory_limit_bytes >> 20,
        "gpu_model": asked.gpu_model,
        "cpu_milli": round(asked.cpus * 1000),
        "memory_mib": asked.host_memory_bytes >> 20,
        "priority": asked.priority,
        "opportunistic": asked.opportunistic,
        "preemptible": asked.preemptible,
        "time_limit_s": asked.time_limit_s,
        "grace_s": asked.grace_s,
        "begin_after_s": asked.begin_s,
        "tasks": asked.tasks,
        "retries": asked.retries,
        "requeue": asked.requeue,
        "labels": msgspec.json.encode(asked.labels).decode(),
        "submitted_s": now_s,
        "command": " ".join(asked.argv)[:4096],
        "changed": next_change(connection),
    }
    number = insert(connection, asked, values)
    connection.execute(
        "INSERT INTO body VALUES(?, ?, ?)",
        (number, msgspec.msgpack.encode(asked), asked.script.encode(asked.script_encoding)),
    )
    audit(connection, uid, "submit", str(number), now_s)
    if asked.depends:
        invalid = dependencies.add(connection, rows.workload(connection, number), asked.depends)
        wake(connection, [_cancel_invalid(connection, row) for row in invalid])
    return number


def name_of(program: str) -> str:
    """The name of work that has none: that of its program, with `_` for what no name can have."""
    found = re.sub(r"[^A-Za-z0-9_.@:+-]", "_", program.rpartition("/")[2][:128])
    return found if NAME.fullmatch(found) else f"_{found}"[:128] if found else "work"


def next_change(connection: sqlite3.Connection) -> int:
    """The number of the next change; readers ask for what came after one."""
    return int(connection.execute("SELECT max(changed) FROM workload").fetchone()[0] or 0) + 1


def transition(
    connection: sqlite3.Connection, number: int, state: WorkState, **values: Any
) -> WorkRow:
    """Change the state of a workload, and these of its columns; returns the row as it is then.

    Raises WorkUnknown, and WorkStateWrong if the state cannot follow.
    """
    row = _change(connection, number, state, values)
    if state in ENDS or state is WorkState.RUNNING:
        wake(connection, [row])
    return row


def wake(connection: sqlite3.Connection, rows_: Iterable[WorkRow]) -> None:
    """Settle what depends on workloads that have begun or ended, and on what that ends."""
    happened = deque(rows_)
    while happened:
        row = happened.popleft()
        for other in dependencies.wake(connection, row):
            happened.append(_cancel_invalid(connection, other))


def _cancel_invalid(connection: sqlite3.Connection, row: WorkRow) -> WorkRow:
    values = {
        "reason": f"what it depends on cannot happen any more: {row.depends}",
        "ended_s": time.time(),
    }
    return _change(connection, row.id, WorkState.CANCELLED, values)


def _change(
    connection: sqlite3.Connection, number: int, state: WorkState, values: Mapping[str, Any]
) -> WorkRow:
    before = rows.workload(connection, number)
    if not may_follow(before.state, state):
        raise wrong_state(before, state)
    values = {"state": str(state), **values, "changed": next_change(connection)}
    names = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE workload SET {names} WHERE id = ?", (*values.values(), number))
    return rows.workload(connection, number)


def update(
    connection: sqlite3.Connection, number: int, state: WorkState, values: dict[str, Any]
) -> WorkRow:
    """Change columns of a workload that is in this state still; raises WorkStateWrong."""
    before = rows.workload(connection, number)
    if before.state is not state:
        raise WorkStateWrong(f"workload {number} is {before.state} now", "the same again")
    values = {**values, "changed": next_change(connection)}
    names = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE workload SET {names} WHERE id = ?", (*values.values(), number))
    return rows.workload(connection, number)


def wrong_state(row: WorkRow, state: WorkState) -> WorkStateWrong:
    """Why a workload cannot come into a state."""
    hint = "`moiety queue`, `moiety history`"
    if state is WorkState.HELD and row.state in ACTIVE:
        hint = f"`moiety cancel {row.id}`: only work that waits can be held"
    return WorkStateWrong(f"workload {row.id} is {row.state}: it cannot become {state}", hint)


def hold(connection: sqlite3.Connection, number: int, reason: str) -> WorkRow:
    """Keep a workload that waits from starting; raises WorkStateWrong if it does not wait.

    What its user holds, another may hold from then on, but not the other way round.
    """
    row = rows.workload(connection, number)
    if row.state is WorkState.HELD:
        is_others = holds.other_holder(row.reason, row.user) is not None
        if is_others or holds.other_holder(reason, row.user) is None:
            return row
        return set_reason(connection, number, reason)
    if row.state is not WorkState.PENDING:  # HELD follows others too, once their attempt is over
        raise wrong_state(row, WorkState.HELD)
    return transition(connection, number, WorkState.HELD, reason=reason)


def release(connection: sqlite3.Connection, number: int) -> WorkRow:
    """Let a held workload start; raises WorkStateWrong if it does not wait."""
    row = rows.workload(connection, number)
    if row.state is WorkState.PENDING:
        return row
    if row.state is not WorkState.HELD:
        raise wrong_state(row, WorkState.PENDING)
    return transition(
        connection, number, WorkState.PENDING, reason="", failures=0, not_before_s=0.0
    )


def cancel(
    connection: sqlite3.Connection, number: int, intent: str, reason: str, now_s: float
) -> tuple[WorkRow, bool]:
    """Take a workload out of the queue, or have it end; whether it has to be told.

    `intent` is why it ends. One that is over stays as it is.
    """
    row = rows.workload(connection, number)
    if row.state in WAITING:
        values: dict[str, Any] = {"reason": reason, "ended_s": now_s}
        return transition(connection, number, WorkState.CANCELLED, **values), False
    if row.state is WorkState.ENDING:  # it was told, and would come back
        set_intent(connection, number, intent)
        return rows.workload(connection, number), False
    if row.state in ENDS:
        return row, False
    return transition(connection, number, WorkState.ENDING, intent=intent, reason=reason), True


def set_intent(connection: sqlite3.Connection, number: int, intent: str) -> None:
    """Say for another reason why a workload ends; nothing happens if it does not."""
    connection.execute(
        "UPDATE workload SET intent = ?, changed = ? WHERE id = ? AND state = 'ending'",
        (intent, next_change(connection), number),
    )


def set_reason(connection: sqlite3.Connection, number: int, reason: str) -> WorkRow:
    """Say for another reason why a workload is in its state."""
    connection.execute(
        "UPDATE workload SET reason = ?, changed = ? WHERE id = ?",
        (reason, next_change(connection), number),
    )
    return rows.workload(connection, number)


def begin_attempt(
    connection: sqlite3.Connection, number: int, attempt: int, cards: Sequence[int], now_s: float
) -> WorkRow | None:
    """Commit that a workload gets these GPUs, before anything is started.

    Returns None if it waits no longer, or was started since the decision was made.
    """
    before = rows.workload(connection, number)
    if before.state is not WorkState.PENDING or before.attempt != attempt - 1:
        return None
    named = ",".join(map(str, cards))
    connection.execute(
        "INSERT INTO attempt(workload, number, cards, committed_s) VALUES(?, ?, ?, ?)",
        (number, attempt, named, now_s),
    )
    return transition(
        connection,
        number,
        WorkState.STARTING,
        attempt=attempt,
        cards=named,
        began_s=now_s,
        reason="",
        intent="",
    )


def started(
    connection: sqlite3.Connection,
    number: int,
    attempt: int,
    pid: int,
    started_at: int,
    agent: str = "",
) -> WorkState:
    """The supervisor of an attempt runs; returns the state of the workload from now on."""
    connection.execute(
        "UPDATE attempt SET supervisor_pid = ?, supervisor_started = ?, agent_workload = ? "
        "WHERE workload = ? AND number = ?",
        (pid, started_at, agent, number, attempt),
    )
    before = rows.workload(connection, number)
    if before.state is not WorkState.STARTING or before.attempt != attempt:
        return before.state
    return transition(connection, number, WorkState.RUNNING).state


def agent_workload(connection: sqlite3.Connection, number: int) -> str:
    """The agent's name of the share of a workload's last attempt; empty if it is not known."""
    found = connection.execute(
        "SELECT agent_workload FROM attempt WHERE workload = ? ORDER BY number DESC LIMIT 1",
        (number,),
    ).fetchone()
    return str(found[0]) if found else ""


def end_attempt(
    connection: sqlite3.Connection,
    number: int,
    attempt: int,
    state: WorkState,
    outcome: str,
    now_s: float,
    **values: Any,
) -> WorkRow | None:
    """An attempt is over, and its GPUs are free; None if it was over already."""
    before = rows.workload(connection, number)
    if before.attempt != attempt or before.state not in ACTIVE:
        return None
    connection.execute(
        "UPDATE attempt SET ended_s = ?, outcome = ? WHERE workload = ? AND number = ?",
        (now_s, outcome, number, attempt),
    )
    if state in ENDS:
        values["ended_s"] = now_s
    else:
        values |= {"began_s": None, "cards": "", "intent": ""}
        values |= {"suspended_s": 0.0, "suspended_since_s": None}
    return transition(connection, number, state, **values)


def apply(connection: sqlite3.Connection, projects: Sequence[ProjectRow]) -> list[str]:
    """Make or change projects; returns one line for each that is different now.

    Raises InvalidValue if the tree that they make with the others makes no sense.
    """
    known = project_check.check(connection, projects)
    lines = []
    for each in projects:
        before = known.get(each.name)
        if before == each:
            continue
        lines.append(f"project {each.name} {'changed' if before else 'created'}")
        connection.execute(
            "INSERT INTO project VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET row = excluded.row",
            (each.name, msgspec.json.encode(each)),
        )
    return lines


def audit(connection: sqlite3.Connection, uid: int, act: str, target: str, now_s: float) -> None:
    """Write down who did what."""
    connection.execute(
        "INSERT INTO audit(at_s, uid, act, target) VALUES(?, ?, ?, ?)", (now_s, uid, act, target)
    )
