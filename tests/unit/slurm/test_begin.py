"""The times of --begin."""

from __future__ import annotations

import time

import pytest

from moiety.slurm.errors import JobRefused
from moiety.slurm.submit.begin import begin_s

NOW = time.mktime((2026, 11, 25, 14, 30, 0, 0, 0, -1))


def at(*parts: int) -> float:
    return time.mktime((*parts, *(0,) * (6 - len(parts)), 0, 0, -1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 0.0),
        ("now+1hour", NOW + 3600),
        ("now+90", NOW + 90),
        ("now-1", NOW - 1),
        ("now + 2 days", NOW + 2 * 86400),
        ("now+3minutes", NOW + 180),
        ("16:00", at(2026, 11, 25, 16)),
        ("14:00", at(2026, 11, 26, 14)),
        ("2:30pm", at(2026, 11, 26, 14, 30)),
        ("midnight", at(2026, 11, 26)),
        ("noon", at(2026, 11, 26, 12)),
        ("teatime", at(2026, 11, 25, 16)),
        ("tomorrow", at(2026, 11, 26)),
        ("noon tomorrow", at(2026, 11, 26, 12)),
        ("2030-01-31", at(2030, 1, 31)),
        ("2030-01-31T12:34:56", at(2030, 1, 31, 12, 34, 56)),
        ("01/31/30", at(2030, 1, 31)),
        ("013130", at(2030, 1, 31)),
    ],
)
def test_times(text: str, expected: float) -> None:
    assert begin_s(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "foo", "25:00", "2030-13-01", "now+1fortnight"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(JobRefused, match="Invalid --begin specification"):
        begin_s(text, NOW)
