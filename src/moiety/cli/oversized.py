"""Programs that ask for much more memory than they ever used. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from moiety.agent.control.rows import ProcessRow
from moiety.cli.output import size

WORKED_S: Final = 60.0
"""GPU-seconds after which the memory that a program used says something."""
PART_MAX: Final = 0.5
"""A program that used more than this part of what it asks for is not named."""


class Oversized(NamedTuple):
    """A program that asks for too much: what it asks for and used, and what to type."""

    text: str
    remedy: str


def oversized(rows: Iterable[ProcessRow]) -> list[Oversized]:
    """Each program that asks for much more than it used at most, once for each GPU.

    It asks for what is kept for it, or for its own limit.
    """
    found = []
    for row in rows:
        asked = row.share.memory_bytes or _limit_bytes(row)
        if row.gpu is None or row.received_s < WORKED_S or row.peak_bytes > asked * PART_MAX:
            continue
        option = "--memory" if row.share.memory_bytes else "--memory-limit"
        found.append(
            Oversized(
                f"{row.program or 'tenant'} ({row.tenant}) asks {size(asked)}, "
                f"never used more than {size(row.peak_bytes)}",
                f"`moiety set {row.tenant} {option} SIZE` leaves the rest to others",
            )
        )
    return found


def _limit_bytes(row: ProcessRow) -> int:
    """The limit that its share asks for; 0: none."""
    part = row.share.memory_limit_part
    return (row.share.memory_limit_bytes if part is None else row.limit_bytes) or 0


def hints(rows: Iterable[ProcessRow]) -> list[str]:
    """One sentence for each such program, with what to type."""
    return [f"{each.text}; {each.remedy}" for each in oversized(rows)]
