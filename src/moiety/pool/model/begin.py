"""Times to begin, as `--begin now+1hour` and `--begin 2026-12-01T08:00` have them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from moiety.model.errors import BadArgument

UNITS: Final = {
    "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0,
    "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0,
}  # fmt: skip
_LATER: Final = re.compile(r"(?:now)?\s*\+?\s*([0-9]{1,9})\s*([a-z]*)")
_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_HOURS: Final = {"midnight": 0, "noon": 12, "teatime": 16}
_HINT: Final = "--begin now+1hour, 16:30, tomorrow or 2026-12-01T08:00, say"


def parse_begin(text: str, now_s: float) -> float:
    """A time in seconds since 1970, in this machine's time zone; raises BadArgument."""
    word = text.strip().lower()
    now = datetime.fromtimestamp(now_s).astimezone()
    if word == "now":
        return now_s
    if (later := _LATER.fullmatch(word)) and (word.startswith(("now", "+")) or later[2]):
        unit = later[2] if later[2] in UNITS else later[2].removesuffix("s")
        if later[2] and unit not in UNITS:
            raise _no_time(text)
        return now_s + int(later[1]) * UNITS.get(unit, 1.0)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "tomorrow"):
        return (now if word == "today" else now + timedelta(days=1)).timestamp()
    clock = _CLOCK.fullmatch(word)
    if clock is None and word not in _HOURS:
        return _date(text)
    try:
        hour, minute, second = (int(each or 0) for each in clock.groups()) if clock else (
            _HOURS[word], 0, 0,
        )  # fmt: skip
        found = today.replace(hour=hour, minute=minute, second=second)
    except ValueError:
        raise _no_time(text) from None
    return (found if found > now else found + timedelta(days=1)).timestamp()


def _date(text: str) -> float:
    """A date, with or without a time."""
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d/%y", "%m%d%y"):
        try:
            return datetime.strptime(text.strip(), form).astimezone().timestamp()
        except (ValueError, OverflowError):
            continue
    raise _no_time(text)


def _no_time(text: str) -> BadArgument:
    return BadArgument(f"{text[:40]!r} is no time to begin", _HINT)
