"""Programs that ask for much more memory than they ever used. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moiety.agent.control.rows import ProcessRow
from moiety.cli.output import size

WORKED_S: Final = 60.0
"""GPU-seconds after which the memory that a program used says something."""
PART_MAX: Final = 0.5
"""A program that used more than this part of what it asks for is not named."""


def hint(row: ProcessRow) -> str:
    """What a program asks for and what it used at most on this GPU; empty if that is no waste.

    It asks for what is kept for it, or for its own limit.
    """
    asked = row.share.memory_bytes or row.share.memory_limit_bytes or 0
    if row.gpu is None or row.received_s < WORKED_S or row.peak_bytes > asked * PART_MAX:
        return ""
    return f"asks {size(asked)}, never used more than {size(row.peak_bytes)}"


def hints(rows: Iterable[ProcessRow]) -> list[str]:
    """One sentence for each such program, with what to type."""
    found = []
    for row in rows:
        if text := hint(row):
            option = "--memory" if row.share.memory_bytes else "--memory-limit"
            found.append(
                f"{row.program or 'tenant'} ({row.tenant}) {text}; "
                f"`moiety set {row.tenant} {option} SIZE` leaves the rest to others"
            )
    return found
