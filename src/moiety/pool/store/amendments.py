"""Changes what was asked for of a workload that is in the store already."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
from msgspec import UNSET

from moiety.model.errors import WorkStateWrong
from moiety.pool.model.amendment import Amendment
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WAITING
from moiety.pool.store import changes, rows


def amend(connection: sqlite3.Connection, number: int, new: Amendment) -> WorkRow:
    """Write new values down; raises WorkUnknown, and WorkStateWrong if it is too late for them."""
    before = rows.workload(connection, number)
    if new.is_for_waiting and before.state not in WAITING:
        raise WorkStateWrong(
            f"workload {number} is {before.state}: its time limit, priority and begin time can be "
            "changed only while it waits",
            "cancel it, and submit it with other values",
        )
    found: dict[str, Any] = {
        "time_limit_s": new.time_limit_s,
        "priority": new.priority,
        "begin_after_s": new.begin_s,
        "name": new.name,
    }
    values = {name: value for name, value in found.items() if value is not UNSET}
    if new.labels is not UNSET:
        values["labels"] = msgspec.json.encode(before.labels | new.labels).decode()
    if values:
        values["changed"] = changes.next_change(connection)
        names = ", ".join(f"{name} = ?" for name in values)
        connection.execute(f"UPDATE workload SET {names} WHERE id = ?", (*values.values(), number))
    return rows.workload(connection, number)
