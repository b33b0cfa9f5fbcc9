"""Times and durations: what is read and written."""

from __future__ import annotations

import time

import pytest

from moiety.slurm import times

NOW_S = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))
DAY_S = time.mktime((2026, 11, 25, 0, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 300), ("5:30", 330), ("1:00:00", 3600), ("1-0", 86400), ("1-02:30", 95400),
     ("2-03:04:05", 183845)],
)  # fmt: skip
def test_a_time_limit_has_six_forms(text: str, seconds: float) -> None:
    assert times.limit(text) == seconds


def test_no_time_limit_is_a_time_limit() -> None:
    assert times.limit("UNLIMITED") is None
    with pytest.raises(ValueError, match="banana"):
        times.limit("banana")


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("now", NOW_S),
        ("now-1day", NOW_S - 86400),
        ("now-2hours", NOW_S - 7200),
        ("now+30", NOW_S + 30),
        ("00:00", DAY_S),
        ("today", DAY_S),
        ("midnight", DAY_S),
        ("2:30pm", DAY_S + 14.5 * 3600),
        ("2026-11-25", DAY_S),
        ("2026-11-25T11:00", DAY_S + 11 * 3600),
        ("2026-11-25T11:00:05", DAY_S + 11 * 3600 + 5),
        ("1125", DAY_S),
        ("11/25/26", DAY_S),
        ("11/25-09:00", DAY_S + 9 * 3600),
    ],
)
def test_a_moment_is_read(text: str, at_s: float) -> None:
    assert times.moment(text, NOW_S) == at_s


@pytest.mark.parametrize("text", ["", "soon", "now-1fortnight", "25:00", "2026-13-01", "now-"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        times.moment(text, NOW_S)


def test_durations_are_written_as_each_program_does() -> None:
    assert [times.short(s) for s in (2, 62, 3723, 90061)] == [
        "0:02",
        "1:02",
        "1:02:03",
        "1-01:01:01",
    ]
    assert [times.full(s) for s in (2, 3723, 90061)] == ["00:00:02", "01:02:03", "1-01:01:01"]
    assert [times.cpu(s) for s in (2.12, 75.5, 3602)] == ["00:02.120", "01:15.500", "01:00:02"]
    assert times.stamp(DAY_S) == "2026-11-25T00:00:00"
    assert times.stamp(None, "N/A") == "N/A"
