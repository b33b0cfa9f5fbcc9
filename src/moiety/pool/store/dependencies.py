"""What waiting work depends on: written down with it, and settled when something has happened.

Nothing here goes through the queue: each end looks up who depends on it, by index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from moiety.model.errors import BadArgument, WorkUnknown
from moiety.pool.model.dependencies import (
    Dependencies,
    Dependency,
    DependencyKind,
    parse_depends,
)
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS
from moiety.pool.store import rows

BLOCKED: Final = "blocked = 'waits' AND state IN ('pending', 'held')"


class DependencyStatus(Enum):
    """Whether something on which others depend has happened."""

    MET = "met"
    WAITS = "waits"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class _Part:
    """One line of the table."""

    kind: DependencyKind
    target: int
    is_whole: bool
    """All tasks of the array `target`."""
    delay_s: float


def targets_of(connection: sqlite3.Connection, depends: str) -> list[WorkRow]:
    """The workloads that are meant, the first task for an array; raises WorkUnknown."""
    return [row for _, row, _ in _resolved(connection, parse_depends(depends))]


def add(connection: sqlite3.Connection, owner: WorkRow, depends: str) -> list[WorkRow]:
    """Write down what a new workload, or an array by its first task, depends on.

    Returns what is to be cancelled at once, as of `wake`.
    """
    asked = parse_depends(depends)
    if owner.array_id is None and any(p.kind is DependencyKind.AFTERCORR for p in asked.parts):
        raise BadArgument("aftercorr is for arrays", "afterok, or --array")
    key = f"{owner.uid}:{owner.name}"
    lines = [
        (owner.id, place, part.kind, target, is_whole, part.delay_s, "")
        for place, (part, target, is_whole) in enumerate(
            (part, row.id, is_whole) for part, row, is_whole in _resolved(connection, asked)
        )
    ]
    if any(part.kind is DependencyKind.SINGLETON for part in asked.parts):
        lines.append((owner.id, len(lines), DependencyKind.SINGLETON, 0, False, 0.0, key))
    connection.executemany("INSERT INTO dependency VALUES(?, ?, ?, ?, ?, ?, ?)", lines)
    connection.execute(
        "UPDATE workload SET blocked = 'waits', depends = ? WHERE id = ? OR array_id = ?",
        (depends, owner.id, owner.id),
    )
    return _settle(connection, owner.id)


def wake(connection: sqlite3.Connection, row: WorkRow) -> list[WorkRow]:
    """Settle what depends on a workload that has begun or ended.

    Returns waiting workloads that want to be cancelled, because what they depend on cannot happen.
    """
    if row.state in ENDS and row.array_id is None:
        connection.execute("DELETE FROM dependency WHERE owner = ?", (row.id,))
    kinds = "" if row.state in ENDS else "AND kind = 'after'"
    owners = connection.execute(
        f"SELECT owner, kind FROM dependency WHERE target = ? AND NOT is_whole {kinds} UNION "
        f"SELECT owner, kind FROM dependency WHERE target = ? AND is_whole {kinds} UNION "
        "SELECT owner, kind FROM dependency WHERE key = ? AND key != ''",
        (row.id, row.array_id or 0, f"{row.uid}:{row.name}"),
    ).fetchall()
    found: list[WorkRow] = []
    for owner, kind in owners:
        index = row.array_index if kind == DependencyKind.AFTERCORR else None
        found += _settle(connection, owner, index)
    return found


def _resolved(
    connection: sqlite3.Connection, asked: Dependencies
) -> Iterator[tuple[Dependency, WorkRow, bool]]:
    """Each part that names work, the row, and whether its whole array is meant."""
    for part in asked.parts:
        if part.kind is DependencyKind.SINGLETON:
            continue
        if part.index is not None:
            row = rows.task(connection, part.number, part.index)
            if row is None:
                raise WorkUnknown(f"{part.number}_{part.index}")
        else:
            row = rows.workload(connection, part.number)
        is_whole = part.index is None and row.array_id == row.id
        if part.kind is DependencyKind.AFTERCORR and not is_whole:
            raise BadArgument(f"workload {part.number} is no array", "afterok instead of aftercorr")
        yield part, row, is_whole


def _settle(connection: sqlite3.Connection, owner: int, index: int | None = None) -> list[WorkRow]:
    """Find out about all waiting tasks of an owner, or about that with this index."""
    first = rows.workload(connection, owner)
    found = connection.execute(
        "SELECT kind, target, is_whole, delay_s FROM dependency WHERE owner = ? ORDER BY place",
        (owner,),
    )
    parts = [_Part(DependencyKind(kind), *rest) for kind, *rest in found]
    if not parts:
        return []
    wanted = parse_depends(first.depends)
    if not any(part.kind is DependencyKind.AFTERCORR for part in parts):
        where = f"(id = {owner} OR array_id = {owner})"
        verdict = _judge(connection, parts, first, wanted.is_any, where)
        if verdict is not DependencyStatus.WAITS:
            connection.execute("DELETE FROM dependency WHERE owner = ?", (owner,))
        return _to_cancel(connection, owner, where) if verdict is DependencyStatus.NEVER else []
    to_cancel: list[WorkRow] = []
    whose, values = ("", (owner,)) if index is None else (" AND array_index = ?", (owner, index))
    for (number,) in connection.execute(
        f"SELECT id FROM workload WHERE array_id = ?{whose} AND {BLOCKED}", values
    ).fetchall():
        where, task = f"id = {number}", rows.workload(connection, number)
        if _judge(connection, parts, task, wanted.is_any, where) is DependencyStatus.NEVER:
            to_cancel += _to_cancel(connection, owner, where)
    return to_cancel


def _judge(
    connection: sqlite3.Connection, parts: Sequence[_Part], row: WorkRow, is_any: bool, where: str
) -> DependencyStatus:
    """Find out whether these may go on, and write it down."""
    found = [_verdict(connection, part, row) for part in parts]
    verdicts = {verdict for verdict, _ in found}
    times = [begin_s for verdict, begin_s in found if verdict is DependencyStatus.MET]
    if is_any:
        first, last = DependencyStatus.MET, DependencyStatus.NEVER
    else:
        first, last = DependencyStatus.NEVER, DependencyStatus.MET
    if first in verdicts:
        verdict = first
    elif DependencyStatus.WAITS in verdicts:
        return DependencyStatus.WAITS
    else:
        verdict = last
    blocked, begin_s = "never", 0.0
    if verdict is DependencyStatus.MET:
        blocked, begin_s = "", min(times) if is_any else max(times)
    connection.execute(
        "UPDATE workload SET blocked = ?, begin_after_s = max(begin_after_s, ?), "
        "changed = (SELECT max(changed) FROM workload) + 1 "
        f"WHERE {where} AND {BLOCKED}",
        (blocked, begin_s),
    )
    return verdict


def _to_cancel(connection: sqlite3.Connection, owner: int, where: str) -> list[WorkRow]:
    """What never starts and was not to wait for ever."""
    if not rows.submission(connection, owner).kill_invalid:
        return []
    found = connection.execute(
        f"{rows.SELECT} WHERE {where} AND blocked = 'never' AND state IN ('pending', 'held')"
    )
    return [rows.row_of(each) for each in found.fetchall()]


def _verdict(
    connection: sqlite3.Connection, part: _Part, row: WorkRow
) -> tuple[DependencyStatus, float]:
    """Whether one part has happened, and the time from which on that counts."""
    if part.kind is DependencyKind.SINGLETON:
        earlier = _is_any(
            connection,
            f"name = ? AND uid = ? AND {rows.LIVE} AND id < ?",
            (row.name, row.uid, row.array_id or row.id),
        )
        return (DependencyStatus.WAITS if earlier else DependencyStatus.MET), 0.0
    where, target = ("array_id = ?" if part.is_whole else "id = ?"), part.target
    if part.kind is DependencyKind.AFTERCORR:
        task = rows.task(connection, part.target, row.array_index or 0)
        if task is None:
            return DependencyStatus.NEVER, 0.0
        where, target = "id = ?", task.id
    if part.kind is DependencyKind.AFTER:
        waiting = f"{where} AND {rows.LIVE} AND state IN ('pending', 'held', 'starting')"
        if _is_any(connection, waiting, (target,)):
            return DependencyStatus.WAITS, 0.0
        (began_s,) = connection.execute(
            f"SELECT max(coalesce(began_s, ended_s)) FROM workload WHERE {where}", (target,)
        ).fetchone()
        return DependencyStatus.MET, began_s + part.delay_s
    if _is_any(connection, f"{where} AND {rows.LIVE}", (target,)):
        return DependencyStatus.WAITS, 0.0
    if part.kind is DependencyKind.AFTERANY:
        return DependencyStatus.MET, 0.0
    is_done = not _is_any(connection, f"{where} AND state != 'done'", (target,))
    return (
        DependencyStatus.MET
        if is_done == (part.kind is not DependencyKind.AFTERNOTOK)
        else DependencyStatus.NEVER
    ), 0.0


def _is_any(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> bool:
    found = connection.execute(f"SELECT 1 FROM workload WHERE {where} LIMIT 1", values)
    return found.fetchone() is not None
