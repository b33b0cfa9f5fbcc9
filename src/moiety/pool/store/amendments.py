"""Changes what was asked for of a workload that is in the store already."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
from msgspec import UNSET

from moiety.model.errors import BadArgument, WorkStateWrong
from moiety.pool.model.amendment import Amendment
from moiety.pool.model.labels import check_labels
from moiety.pool.model.records import WHOLE_MILLI, WorkRow
from moiety.pool.model.states import ENDS, WAITING
from moiety.pool.store import changes, rows


def amend(connection: sqlite3.Connection, number: int, new: Amendment) -> WorkRow:
    """Write new values down.

    Raises WorkUnknown, BadArgument, and WorkStateWrong if it is too late for them.
    """
    before = rows.workload(connection, number)
    if new.is_for_waiting and before.state not in WAITING:
        raise WorkStateWrong(
            f"workload {number} is {before.state}: its begin time can change only while it waits",
            "cancel it, and submit it with another one",
        )
    if before.state in ENDS and new.is_for_living:
        raise WorkStateWrong(f"workload {number} is {before.state}", "submit it once more")
    found: dict[str, Any] = {
        "time_limit_s": new.time_limit_s,
        "priority": new.priority,
        "begin_after_s": new.begin_s,
        "name": new.name,
    }
    values = {name: value for name, value in found.items() if value is not UNSET}
    if new.labels is not UNSET:
        check_labels(labels := before.labels | new.labels)
        values["labels"] = msgspec.json.encode(labels).decode()
    values |= parts_of(before, new)
    return changes.update(connection, number, before.state, values) if values else before


def parts_of(row: WorkRow, new: Amendment) -> dict[str, int]:
    """The columns of the part of its GPUs; raises BadArgument for one that it cannot have."""
    if not new.is_of_gpus:
        return {}
    if not row.gpus or row.opportunistic:
        raise BadArgument("nothing of a GPU is promised to it", "another workload")
    values: dict[str, int] = {}
    if new.gpu is not UNSET:
        values["gpu_milli"] = round(new.gpu * WHOLE_MILLI)
    if new.memory_bytes is not UNSET:
        values["gpu_memory_mib"] = -(-new.memory_bytes // (1 << 20))
        if row.memory_limit_mib and values["gpu_memory_mib"] > row.memory_limit_mib:
            raise BadArgument("the memory is above its memory limit", "less of it")
    return values
