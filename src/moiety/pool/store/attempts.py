"""Reads the attempts of a workload: when each was started, where, and how it ended."""

from __future__ import annotations

import sqlite3

from moiety.pool.model.records import AttemptRow


def of(connection: sqlite3.Connection, number: int) -> list[AttemptRow]:
    """The attempts of a workload, the first one first."""
    found = connection.execute(
        "SELECT number, cards, committed_s, ended_s, outcome FROM attempt WHERE workload = ? "
        "ORDER BY number",
        (number,),
    )
    return [
        AttemptRow(
            number=attempt,
            cards=[int(card) for card in cards.split(",")] if cards else [],
            began_s=began_s,
            ended_s=ended_s,
            outcome=outcome,
        )
        for attempt, cards, began_s, ended_s, outcome in found
    ]
