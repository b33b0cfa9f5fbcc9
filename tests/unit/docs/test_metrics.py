"""The page about metrics names each, as the code does."""

from __future__ import annotations

import re
from pathlib import Path

from moiety.agent.control.metrics import METRICS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def test_the_table_is_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    told = [
        (name, metric.kind, ", ".join(metric.labels), metric.help)
        for name, metric in METRICS.items()
    ]
    assert rows == told
