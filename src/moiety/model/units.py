"""Reads quantities that people write; `moiety.model.format` writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from moiety.model.errors import InvalidDuration, InvalidFraction, InvalidSize
from moiety.model.format import format_bytes, format_duration, format_fraction

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "GIB",
    "KIB",
    "LIMIT_PART_MAX",
    "MIB",
    "NO_LIMIT",
    "TIB",
    "AllocationLimit",
    "format_bytes",
    "format_duration",
    "format_fraction",
    "parse_bytes",
    "parse_duration",
    "parse_fraction",
    "parse_memory_limit",
]

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40
BYTES_MAX: Final = (1 << 63) - 1
LIMIT_PART_MAX: Final = 100.0
"""A limit beyond this many times a GPU's memory is a mistake."""

_NUMBER: Final = r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
_SIZE: Final = rf"(?i)\s*{_NUMBER}\s*([a-z]*)\s*"
_TIME_PART: Final = rf"\s*{_NUMBER}\s*([a-zµ]*)\s*"
_FRACTION: Final = rf"\s*{_NUMBER}\s*(%?)\s*"

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
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "sec": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}


DIGITS_MAX: Final = 15
"""Whole numbers of this many digits are divided exactly as fractions are."""


def _exactly(number: str) -> Fraction | int:
    """The number as it is written; most commands read whole ones, so they load no fractions."""
    if number.isdecimal() and len(number) <= DIGITS_MAX:
        return int(number)
    from fractions import Fraction

    return Fraction(number)


def parse_bytes(text: str) -> int:
    """A number of bytes from `20GiB`, `512 MiB`, `1.5g`, `2GB` or a plain whole number.

    `KiB`, `Ki` and `k` are 1024 bytes, as with `docker run --memory`; `KB` is 1000. Upper and lower
    case mean the same. Part of a byte is dropped. Raises InvalidSize.
    """
    found = re.fullmatch(_SIZE, text)
    if not found:
        problem = "is negative" if text.strip().startswith("-") else "is not a size"
        raise InvalidSize(text, problem)
    number, unit = found[1], found[2].lower()
    if unit not in _BYTES:
        raise InvalidSize(text, f"has an unknown unit, {found[2]}")
    if "." in number and _BYTES[unit] == 1:
        raise InvalidSize(text, "has part of a byte")
    size = int(_exactly(number) * _BYTES[unit])
    if size > BYTES_MAX:
        raise InvalidSize(text, "is more than any machine has")
    return size


class AllocationLimit(NamedTuple):
    """The most that a program or user may allocate: bytes, a part of the GPU, or the larger one."""

    size_bytes: int | None
    part: float | None


NO_LIMIT: Final = AllocationLimit(None, None)
"""All memory of a GPU."""


def parse_memory_limit(text: str) -> AllocationLimit:
    """A limit from an amount as of `parse_bytes`, or from `150%`; more than none.

    Raises InvalidSize.
    """
    found = re.fullmatch(_FRACTION, text)
    if found and found[2]:
        part = float(_exactly(found[1]) / 100)
        if not 0 < part <= LIMIT_PART_MAX:
            most = format_fraction(LIMIT_PART_MAX)
            raise InvalidSize(text, f"is no limit: it is above 0, and at most {most}")
        return AllocationLimit(None, part)
    size = parse_bytes(text)
    if not size:
        raise InvalidSize(text, "is no memory at all")
    return AllocationLimit(size, None)


def parse_duration(text: str) -> float:
    """Seconds from `50ms`, `1.5s`, `2min`, `1h 30min` or a plain number. Raises InvalidDuration."""
    total: Fraction | int = 0
    last: int | None = None
    rest = text.strip()
    while rest:
        found = re.match(_TIME_PART, rest)
        if not found:
            raise InvalidDuration(text, "is negative" if rest[0] == "-" else "is not a duration")
        number, unit = found.groups()
        rest = rest[found.end() :]
        if not unit and last is None and not rest:
            return float(_exactly(number))
        if unit not in _NANOSECONDS:
            raise InvalidDuration(text, f"has an unknown unit, {unit}" if unit else "lacks a unit")
        if last is not None and _NANOSECONDS[unit] >= last:
            raise InvalidDuration(text, "names its units in the wrong order")
        last = _NANOSECONDS[unit]
        total += _exactly(number) * last
    if last is None:
        raise InvalidDuration(text, "is empty")
    return float(total / 10**9)


def parse_fraction(text: str) -> float:
    """A part of a GPU from `0.5` or `50%`: above 0, at most 1. Raises InvalidFraction."""
    found = re.fullmatch(_FRACTION, text)
    if not found:
        raise InvalidFraction(text)
    value = _exactly(found[1]) / (100 if found[2] else 1)
    if not 0 < value <= 1:
        raise InvalidFraction(text, "is more than a whole GPU" if value > 1 else "is nothing")
    return float(value)
