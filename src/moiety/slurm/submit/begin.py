"""Reads the times of `--begin`: now+1hour, 16:00, tomorrow, 2030-01-31T12:30."""

from __future__ import annotations

import re
import time
from typing import Final

from moiety.slurm.errors import JobRefused

UNITS_S: Final = {
    "": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400,
}  # fmt: skip
WORDS: Final = {"midnight": (0, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0)}
DATE: Final = re.compile(
    r"(?:(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)"
    r"|(?P<m2>\d\d?)[/.](?P<d2>\d\d?)(?:[/.](?P<y2>\d{4}|\d\d))?"
    r"|(?P<m3>\d\d)(?P<d3>\d\d)(?P<y3>\d\d))"
)
CLOCK: Final = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?\s*(am|pm)?", re.IGNORECASE)


def begin_s(text: str, now_s: float) -> float:
    """The time in seconds since the epoch; 0: at once. Raises JobRefused."""
    words = text.strip().lower()
    if words == "now":
        return 0.0
    if found := re.fullmatch(r"now\s*\+\s*(\d{1,9})\s*([a-z]*?)s?", words):
        unit = next((u for u in UNITS_S if u and u.startswith(found[2])), "") if found[2] else ""
        if found[2] and not unit:
            raise _wrong(text)
        return now_s + int(found[1]) * UNITS_S[unit]
    now = time.localtime(now_s)
    day: tuple[int, int, int] | None = None
    clock: tuple[int, int, int] | None = None
    for part in re.split(r"[t\s]+(?=\d)|\s+", words):
        if part in ("today", "tomorrow"):
            later = time.localtime(now_s + (86400 if part == "tomorrow" else 0))
            day = (later.tm_year, later.tm_mon, later.tm_mday)
        elif part in WORDS:
            clock = (*WORDS[part], 0)
        elif found := CLOCK.fullmatch(part):
            hour = int(found[1])
            if found[4]:
                hour = hour % 12 + (12 if found[4] == "pm" else 0)
            clock = (hour, int(found[2]), int(found[3] or 0))
        elif part in ("am", "pm") and clock:
            clock = (clock[0] % 12 + (12 if part == "pm" else 0), *clock[1:])
        elif found := DATE.fullmatch(part):
            day = _date(found, now.tm_year)
        else:
            raise _wrong(text)
    return _later(text, now, now_s, day, clock)


def _date(found: re.Match[str], this_year: int) -> tuple[int, int, int]:
    if found["year"]:
        return int(found["year"]), int(found["month"]), int(found["day"])
    year = found["y2"] or found["y3"]
    number = int(year) + (2000 if len(year) == 2 else 0) if year else this_year
    return number, int(found["m2"] or found["m3"]), int(found["d2"] or found["d3"])


def _later(
    text: str,
    now: time.struct_time,
    now_s: float,
    day: tuple[int, int, int] | None,
    clock: tuple[int, int, int] | None,
) -> float:
    date = day or (now.tm_year, now.tm_mon, now.tm_mday)
    hour, minute, second = clock or (0, 0, 0)
    if not (1 <= date[1] <= 12 and 1 <= date[2] <= 31 and hour < 24 and minute < 60):
        raise _wrong(text)
    at_s = time.mktime((*date, hour, minute, second, 0, 0, -1))
    if day is None and at_s <= now_s:  # a time of day that has passed is tomorrow's
        at_s = time.mktime((date[0], date[1], date[2] + 1, hour, minute, second, 0, 0, -1))
    return at_s


def _wrong(text: str) -> JobRefused:
    return JobRefused(f"Invalid --begin specification: {text[:40]!r}")
