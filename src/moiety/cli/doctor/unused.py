"""The findings of `moiety doctor` about what programs hold and do not use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from moiety.agent.control.rows import ProcessRow
from moiety.cli.doctor.finding import Finding
from moiety.cli.output import count, seconds, size
from moiety.cli.oversized import oversized

IDLE_S: Final = 600.0
"""Seconds without work after which a program on a GPU is named, as in `moiety ps --idle`."""


def unused(rows: Sequence[ProcessRow]) -> Iterator[Finding]:
    """Programs that ask for more memory than they ever used, and GPUs on which all are idle."""
    for each in oversized(rows):
        yield Finding("programs", "warn", each.text, each.remedy)
    for gpu in sorted({row.gpu for row in rows if row.gpu is not None}):
        on = [row for row in rows if row.gpu == gpu]
        idle_s = min(row.idle_s for row in on)
        if idle_s < IDLE_S:
            continue
        held = size(sum(row.allocated_bytes + row.residue_bytes for row in on))
        have = "has" if len(on) == 1 else "have"
        yield Finding(
            f"GPU {gpu}",
            "warn",
            f"{count(len(on), 'program')} on it {have} done nothing there for "
            f"{seconds(round(idle_s))}, with {held} of memory",
            "`moiety ps --idle` lists them, and `moiety kill` ends one",
        )
