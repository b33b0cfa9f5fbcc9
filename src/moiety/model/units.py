"""Reads quantities that people write; `moiety.model.format` writes them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from moiety.model.errors import InvalidDuration, InvalidFraction, InvalidSize
from moiety.model.format import format_bytes, format_duration, format_fraction

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "TIB",
    "format_bytes",
    "format_duration",
    "format_fraction",
    "parse_bytes",
    "parse_duration",
    "parse_fraction",
]

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40
BYTES_MAX: Final = (1 << 63) - 1

_NUMBER: Final = r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
_SIZE: Final = re.compile(rf"\s*{_NUMBER}\s*([a-z]*)\s*", re.IGNORECASE)
_TIME_PART: Final = re.compile(rf"\s*{_NUMBER}\s*([a-zµ]*)\s*")
_FRACTION: Final = re.compile(rf"\s*{_NUMBER}\s*(%?)\s*")

_BYTES: Final = {"": 1, "b": 1} | {
    suffix: base**power
    for power, letter in enumerate("kmgtp", start=1)
    for suffix, base in (
        (f"{letter}ib", 1024),
        (f"{letter}i", 1024),
        (letter, 1024),
        (f"{letter}b", 1000),
    )
}
_SECONDS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "sec": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}


def parse_bytes(text: str) -> int:
    """A number of bytes from `20GiB`, `512 MiB`, `1.5g`, `2GB` or a plain whole number.

    `KiB`, `Ki` and `k` are 1024 bytes, as with `docker run --memory`; `KB` is 1000. Upper and lower
    case mean the same. Part of a byte is dropped. Raises InvalidSize.
    """
    found = _SIZE.fullmatch(text)
    if not found:
        problem = "is negative" if text.strip().startswith("-") else "is not a size"
        raise InvalidSize(text, problem)
    number, unit = found[1], found[2].lower()
    if unit not in _BYTES:
        raise InvalidSize(text, f"has an unknown unit, {found[2]}")
    if "." in number and _BYTES[unit] == 1:
        raise InvalidSize(text, "has part of a byte")
    size = int(Fraction(number) * _BYTES[unit])
    if size > BYTES_MAX:
        raise InvalidSize(text, "is more than any machine has")
    return size


def parse_duration(text: str) -> float:
    """Seconds from `50ms`, `1.5s`, `2min`, `1h 30min` or a plain number. Raises InvalidDuration."""
    total = Fraction(0)
    last: Fraction | None = None
    rest = text.strip()
    while rest:
        found = _TIME_PART.match(rest)
        if not found:
            raise InvalidDuration(text, "is negative" if rest[0] == "-" else "is not a duration")
        number, unit = found.groups()
        rest = rest[found.end() :]
        if not unit and last is None and not rest:
            return float(Fraction(number))
        if unit not in _SECONDS:
            raise InvalidDuration(text, f"has an unknown unit, {unit}" if unit else "lacks a unit")
        if last is not None and _SECONDS[unit] >= last:
            raise InvalidDuration(text, "names its units in the wrong order")
        last = _SECONDS[unit]
        total += Fraction(number) * last
    if last is None:
        raise InvalidDuration(text, "is empty")
    return float(total)


def parse_fraction(text: str) -> float:
    """A part of a GPU from `0.5` or `50%`: above 0, at most 1. Raises InvalidFraction."""
    found = _FRACTION.fullmatch(text)
    if not found:
        raise InvalidFraction(text)
    value = Fraction(found[1]) / (100 if found[2] else 1)
    if not 0 < value <= 1:
        raise InvalidFraction(text, "is more than a whole GPU" if value > 1 else "is nothing")
    return float(value)
