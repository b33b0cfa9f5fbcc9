"""Times and durations as Slurm's programs read and write them."""

from __future__ import annotations

import re
import time
from typing import Final

UNITS_S: Final = {
    "seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 7 * 86400,
}  # fmt: skip
WORDS: Final = {"midnight": (0, 0), "noon": (12, 0), "fika": (15, 0), "teatime": (16, 0)}
FULL: Final = re.compile(r"(\d{4})-(\d\d?)(?:-(\d\d?))?(?:t(\d\d?)(?::(\d\d?)(?::(\d\d?))?)?)?")
DAY: Final = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)")
SHORT: Final = re.compile(r"(\d\d?)[/.](\d\d?)(?:[/.](\d{4}|\d\d))?(?:-(.+))?")
PLAIN: Final = re.compile(r"(\d\d)(\d\d)(\d\d)?")
CLOCK: Final = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?\s*(am|pm)?")


def stamp(at_s: float | None, none: str = "Unknown") -> str:
    """A time as Slurm writes it: `2030-01-31T12:30:00`."""
    if not at_s:
        return none
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))


def short(seconds: float) -> str:
    """A duration as `squeue` writes it: `0:02`, `1:02:03`, `2-01:02:03`."""
    whole = max(int(seconds), 0)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days}-{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
    if hours:
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{rest // 60}:{rest % 60:02d}"


def full(seconds: float) -> str:
    """A duration as `sacct` and `scontrol` write it: `00:00:02`, `2-01:02:03`."""
    whole = max(int(seconds), 0)
    days, rest = divmod(whole, 86400)
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def cpu(seconds: float) -> str:
    """Time of processors as `sacct` writes it: `00:02.120`, `01:00:02`, `2-01:02:03`."""
    if seconds >= 3600:
        return full(seconds)
    return f"{int(seconds) // 60:02d}:{seconds % 60:06.3f}"


def limit(text: str) -> float | None:
    """A time limit: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; None: no limit. Raises ValueError."""
    if text.lower() in ("infinite", "unlimited", "-1"):
        return None
    found = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,6}))?(?::(\d{1,6}))?", text)
    if found is None:
        raise ValueError(text)
    parts = [int(part) for part in found.groups()[1:] if part is not None]
    if found[1] is not None:
        parts += [0] * (3 - len(parts))
    elif len(parts) == 1:
        parts = [0, parts[0], 0]
    elif len(parts) == 2:
        parts = [0, *parts]
    days = int(found[1] or 0)
    return float(((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2])


def moment(text: str, now_s: float, *, is_later: bool = False) -> float:
    """The time that `-S`, `-E` and `--begin` name, in seconds since the epoch.

    A time of day is today's; with `is_later` tomorrow's, if it has passed. Raises ValueError.
    """
    words = text.strip().lower()
    if match := re.fullmatch(r"now(?:\s*([+-])\s*(\d{1,9})\s*([a-z]*))?", words):
        return now_s + _offset(text, match)
    now = time.localtime(now_s)
    if match := FULL.fullmatch(words):
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
        return _at(text, (year, month, day or 1), (hour, minute, second))
    if words.isdecimal() and len(words) > 8:
        return float(words[:12])
    today, clock = (now.tm_year, now.tm_mon, now.tm_mday), (0, 0, 0)
    date: tuple[int, int, int] | None = None
    for part in re.split(r"[t\s]+(?=\d)|\s+(?!am|pm)", words):
        if part in ("today", "tomorrow", "yesterday"):
            days = {"today": 0, "tomorrow": 1, "yesterday": -1}[part]
            date = (*today[:2], today[2] + days)
        elif part in WORDS:
            clock = (*WORDS[part], 0)
        elif match := CLOCK.fullmatch(part):
            clock = _clock(match)
        elif match := DAY.fullmatch(part):
            date = (int(match[1]), int(match[2]), int(match[3]))
        elif match := SHORT.fullmatch(part):
            date = _date(now.tm_year, match[1], match[2], match[3])
            if match[4]:
                inner = CLOCK.fullmatch(match[4])
                if inner is None:
                    raise ValueError(text)
                clock = _clock(inner)
        elif match := PLAIN.fullmatch(part):
            date = _date(now.tm_year, match[1], match[2], match[3])
        else:
            raise ValueError(text)
    at_s = _at(text, date or today, clock)
    if is_later and date is None and at_s <= now_s:
        at_s = _at(text, (*today[:2], today[2] + 1), clock)
    return at_s


def _offset(text: str, match: re.Match[str]) -> int:
    if match[1] is None:
        return 0
    unit = match[3]
    name = next((each for each in UNITS_S if each.startswith(unit)), "") if unit else "seconds"
    if not name:
        raise ValueError(text)
    return int(match[2]) * UNITS_S[name] * (-1 if match[1] == "-" else 1)


def _clock(match: re.Match[str]) -> tuple[int, int, int]:
    hour = int(match[1])
    if match[4]:
        hour = hour % 12 + (12 if match[4] == "pm" else 0)
    return hour, int(match[2]), int(match[3] or 0)


def _date(this_year: int, month: str, day: str, year: str | None) -> tuple[int, int, int]:
    number = this_year if not year else int(year) + (2000 if len(year) == 2 else 0)
    return number, int(month), int(day)


def _at(text: str, date: tuple[int, int, int], clock: tuple[int, int, int]) -> float:
    if not (1 <= date[1] <= 12 and date[2] <= 32 and clock[0] < 24 and clock[1] < 60):
        raise ValueError(text)
    try:
        return time.mktime((*date, *clock, 0, 0, -1))
    except OverflowError:
        raise ValueError(text) from None
