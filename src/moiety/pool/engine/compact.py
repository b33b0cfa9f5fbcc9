"""Rows as the engine keeps them: a hundred thousand wait, and most of what they say is the same."""

from __future__ import annotations

import sys
from typing import Any, Final

from msgspec.structs import replace

from moiety.pool.model.records import WorkRow

UNREAD: Final[dict[str, Any]] = {"command": "", "stdout": "", "stderr": ""}
"""What the engine does not read."""
REPEATED: Final = ("name", "project", "user", "reason", "gpu_model", "depends", "intent")
"""Texts that many workloads have in common."""
NO_CARDS: Final[list[int]] = []
NO_LABELS: Final[dict[str, str]] = {}


def compact(row: WorkRow) -> WorkRow:
    """The row without what the engine does not read; equal texts are one text in memory."""
    texts = {name: sys.intern(getattr(row, name)) for name in REPEATED}
    return replace(
        row, cards=row.cards or NO_CARDS, labels=row.labels or NO_LABELS, **texts, **UNREAD
    )
