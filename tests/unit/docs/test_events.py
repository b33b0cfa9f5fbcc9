"""The page about events names each, as the code does."""

from __future__ import annotations

import re
from pathlib import Path

from moiety.agent.core.journal_events import REASONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "events.md"


def test_the_table_is_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert rows == [(name, told.severity, told.meaning) for name, told in REASONS.items()]
