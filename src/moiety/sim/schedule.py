"""The notation of times of day and week, for queues that have another quota at night.

`mon-fri 20:00-08:00=12`: from Monday to Friday, from eight in the evening to eight in the next
morning, twelve GPUs. Days may be left out (every day) and listed (`sat,sun`); several of these
stand with | between them. A span that goes past midnight belongs to the day on which it begins.
"""

from __future__ import annotations

import re
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import DAY_S, Amounts, Window

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK: Final = frozenset(range(len(DAYS)))
GPUS_MAX: Final = 1_000_000
_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_SUCH_AS: Final = "such as mon-fri 20:00-08:00=12"


def windows(text: str) -> tuple[Window, ...]:
    """All windows of a queue. Raises ValueError with the problem."""
    return tuple(_window(part.strip()) for part in text.split("|") if part.strip())


def _window(text: str) -> Window:
    span, found, amount = text.partition("=")
    days, _, hours = span.strip().rpartition(" ")
    begin, dash, end = hours.partition("-")
    if not found or not dash:
        raise ValueError(f"{text!r} is no span of time with a quota, {_SUCH_AS}")
    try:
        count = float(amount)
    except ValueError:
        raise ValueError(f"{amount.strip()!r} of {text!r} is no number of GPUs") from None
    if not 0 <= count <= GPUS_MAX:
        raise ValueError(f"{amount.strip()!r} of {text!r} is no number of GPUs")
    return window(days, begin, end, Amounts(gpu_milli=round(count * WHOLE_GPU)))


def window(days: str, begin: str, end: str, quota: Amounts) -> Window:
    """One window from the texts of its parts. Raises ValueError."""
    return Window(time_of_day(begin), time_of_day(end), quota, days_of(days))


def days_of(text: str) -> frozenset[int]:
    """`mon-fri`, `sat,sun`; nothing: every day; 0 is Monday. Raises ValueError."""
    if not text.strip():
        return WEEK
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = (each.strip().lower() for each in part.partition("-"))
        for name in (first, last) if dash else (first,):
            if name not in DAYS:
                raise ValueError(f"{name!r} is no day: {', '.join(DAYS)}")
        begin = DAYS.index(first)
        end = DAYS.index(last) if dash else begin
        found.update((begin + at) % len(DAYS) for at in range((end - begin) % len(DAYS) + 1))
    return frozenset(found)


def time_of_day(text: str) -> float:
    """`08:30` in seconds after midnight; `24:00` is the end of a day. Raises ValueError."""
    match = _TIME.fullmatch(text.strip())
    if match:
        hours, minutes = int(match[1]), int(match[2])
        if minutes < 60 and hours * 60 + minutes <= 24 * 60:
            return float(hours * 3600 + minutes * 60)
    raise ValueError(f"{text.strip()!r} is no time of day, such as 08:30")


def moment(text: str) -> float:
    """`tue 21:30` in seconds after Monday's midnight. Raises ValueError."""
    day, _, time = text.strip().partition(" ")
    days = days_of(day)
    if len(days) != 1:
        raise ValueError(f"{text!r} is no moment of a week, such as tue 21:30")
    [at] = days
    return at * DAY_S + time_of_day(time)
