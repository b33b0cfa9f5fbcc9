"""The turns of users in a project: who submits much at once does not stand before all others.

Work of one user in one project stands in the queue as if it had been submitted at most one a
minute. So ten thousand submissions take a week of places, and another user's one is among the
first. What has become due is served in this order, so no work waits for ever. This holds in the
pool of a machine only: in a pool of one's own there is one user.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from moiety.model.errors import TooMuchWaiting
from moiety.pool.model.arrays import parse_array
from moiety.pool.model.records import Submission
from moiety.pool.store import changes

STEP_S: Final = 60.0
"""The time from one place of a user to the next."""


@dataclass(frozen=True, slots=True)
class SubmitRules:
    """What holds for submissions to one pool."""

    takes_turns: bool = False
    """Whether users take turns in a project."""
    waiting: int | None = None
    """How much work of one user may wait; None: there is no limit."""


def submit(
    connection: sqlite3.Connection,
    asked: Submission,
    uid: int,
    user: str,
    now_s: float,
    rules: SubmitRules,
) -> int:
    """Write down a submission by the rules of the pool; returns its number.

    Raises TooMuchWaiting, and what `changes.submit` raises.
    """
    count = len(parse_array(asked.array).indices) if asked.array else 1
    if rules.waiting is not None:
        has = waiting_of(connection, uid)
        if has + count > rules.waiting:
            raise TooMuchWaiting(has, count, rules.waiting)
    number = changes.submit(connection, asked, uid, user, now_s)
    if rules.takes_turns:
        _take_turns(connection, asked.project, uid, number, count, now_s)
    return number


def waiting_of(connection: sqlite3.Connection, uid: int) -> int:
    """How much work of a user waits, or is held."""
    found = connection.execute(
        "SELECT count(*) FROM workload WHERE uid = ? AND state IN ('pending', 'held')", (uid,)
    ).fetchone()
    return int(found[0])


def _take_turns(
    connection: sqlite3.Connection, project: str, uid: int, number: int, count: int, now_s: float
) -> None:
    """Give `count` workloads, whose numbers follow each other, the next places of their user."""
    last = connection.execute(
        "SELECT at_s FROM turn WHERE project = ? AND uid = ?", (project, uid)
    ).fetchone()
    first_s = now_s if last is None else max(now_s, last[0] + STEP_S)
    connection.execute(
        "UPDATE workload SET turn_s = ? + (id - ?) * ? WHERE id >= ? AND id < ?",
        (first_s, number, STEP_S, number, number + count),
    )
    connection.execute(
        "INSERT INTO turn VALUES(?, ?, ?) "
        "ON CONFLICT(project, uid) DO UPDATE SET at_s = excluded.at_s",
        (project, uid, first_s + (count - 1) * STEP_S),
    )
