"""Writes quantities for people; `moiety.model.units` reads them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

SPARKS: Final = "▁▂▃▄▅▆▇█"
BINARY_UNITS: Final = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

ARGV_MAX: Final = 4096
"""Longest command line that is recorded, in characters."""


def format_bytes(count: int) -> str:
    """A number of bytes in the largest fitting binary unit, at most two decimals: `1.5 GiB`."""
    size = abs(count)
    sign = "-" if count < 0 else ""
    for unit, factor in BINARY_UNITS:
        if size >= factor - factor / 1024 * 0.005:  # else it would print as 1024 KiB
            return f"{sign}{_trim(size / factor)} {unit}"
    return f"{sign}{size} B"


def format_duration(seconds: float) -> str:
    """A time in the two largest fitting units: `350 ms`, `2.5 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 0.999995e-3:
        return f"{_trim(seconds * 1e6)} us"
    if 0 < seconds < 0.999995:
        return f"{_trim(seconds * 1e3)} ms"
    if seconds < 59.995:
        return f"{_trim(seconds)} s"
    whole = round(seconds)
    days, whole = divmod(whole, 86400)
    hours, whole = divmod(whole, 3600)
    minutes, whole = divmod(whole, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (whole, "s")]
    first = next(i for i, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def format_fraction(value: float) -> str:
    """A part of a whole as percent: `50 %`."""
    return f"{_trim(value * 100)} %"


def _trim(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def sparkline(values: Sequence[float | None], top: float) -> str:
    """One bar for each value, from 0 to `top`; a blank where there is none."""
    highest = len(SPARKS) - 1
    return "".join(
        " " if value is None else SPARKS[min(highest, max(0, round(value / top * highest)))]
        for value in values
    )


def plain(text: str) -> str:
    """An untrusted text that is safe on a terminal: without control characters."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def encodable(value: Any) -> Any:
    """A value of dicts and lists in which every text can be encoded as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [encodable(each) for each in value]
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    return value


def shortened(argv: list[str]) -> list[str]:
    """A command line, or the beginning of a long one."""
    found: list[str] = []
    left = ARGV_MAX
    for word in argv:
        if len(word) >= left:
            return [*found, word[:left] + "..."]
        found.append(word)
        left -= len(word) + 1
    return found
