"""Times to begin, in this machine's time zone."""

from __future__ import annotations

from datetime import datetime

import pytest

from moiety.model.errors import BadArgument
from moiety.pool.model.begin import parse_begin

NOW = datetime.fromisoformat("2026-11-25T14:30").astimezone()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("now", "2026-11-25T14:30:00"),
        ("2026-12-01", "2026-12-01T00:00:00"),
        ("2026-12-01T08:00", "2026-12-01T08:00:00"),
        ("2026-12-01T08:00:30", "2026-12-01T08:00:30"),
        ("16:30", "2026-11-25T16:30:00"),
        ("9:05", "2026-11-26T09:05:00"),
        ("noon", "2026-11-26T12:00:00"),
        ("tomorrow", "2026-11-26T14:30:00"),
        ("12/01/26", "2026-12-01T00:00:00"),
    ],
)
def test_a_time_is_that_of_the_machine(text: str, found: str) -> None:
    assert (
        parse_begin(text, NOW.timestamp()) == datetime.fromisoformat(found).astimezone().timestamp()
    )


@pytest.mark.parametrize(
    ("text", "later_s"),
    [("now+1hour", 3600), ("now+90", 90), ("now + 2 days", 172800), ("30min", 1800), ("+5", 5),
     ("2h", 7200), ("now+1week", 604800), ("NOW+3minutes", 180)],
)  # fmt: skip
def test_a_time_from_now(text: str, later_s: int) -> None:
    assert parse_begin(text, 1000.0) == 1000.0 + later_s


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "2026-13-01", "now+1year", "now-1hour", "12"]
)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        parse_begin(text, 1000.0)
