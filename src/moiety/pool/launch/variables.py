"""Fills in the variables of a job that are known only when it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from moiety.pool.model.records import WorkRow

MARK: Final = re.compile(r"%(%|[A-Za-z]|\{[a-z]+\})")


def filled(variables: Mapping[str, str], row: WorkRow, spool: str = "") -> dict[str, str]:
    """The variables with their marks replaced; those that are empty then are left out."""
    known = {
        "%": "%",
        "j": str(row.id),
        "A": str(row.id if row.array_id is None else row.array_id),
        "a": "" if row.array_index is None else str(row.array_index),
        "x": row.name,
        "u": row.user,
        "{cards}": ",".join(map(str, row.cards)),
        "{visible}": ",".join(map(str, range(len(row.cards)))),
        "{restarts}": str(row.restarts or ""),
        "{attempt}": str(row.attempt),
        "{began}": str(int(row.began_s or 0)),
        "{spool}": spool,
    }
    found = {
        name: MARK.sub(lambda mark: known.get(mark[1], mark[0]), value)
        for name, value in variables.items()
    }
    return {name: value for name, value in found.items() if value}
