"""What the engine says of work that waits, for lists: they are there without it, too."""

from __future__ import annotations

from collections.abc import Iterable

from moiety.model.errors import MoietyError
from moiety.pool.api.route import ServedPool
from moiety.pool.engine.messages import ExpectedStart, WaitReason
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState


async def reasons_of(pool: ServedPool, rows: Iterable[WorkRow]) -> dict[int, WaitReason]:
    """By number: why each of these waits; empty if the engine does not answer."""
    numbers = _waiting(rows)
    try:
        return await pool.loop.reasons(numbers) if numbers else {}
    except (MoietyError, OSError):
        return {}


async def starts_of(pool: ServedPool, rows: Iterable[WorkRow]) -> dict[int, ExpectedStart]:
    """By number: when each of these is expected to begin; empty if the engine does not answer."""
    numbers = _waiting(rows)
    try:
        return await pool.loop.starts(numbers) if numbers else {}
    except (MoietyError, OSError):
        return {}


def _waiting(rows: Iterable[WorkRow]) -> list[int]:
    return [row.id for row in rows if row.state is WorkState.PENDING]
