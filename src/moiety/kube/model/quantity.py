"""Quantities as Kubernetes writes them: `500m`, `20Gi`, `1.5`, `12e6`; exact, never a float.

The grammar is that of `resource.Quantity` in k8s.io/apimachinery: a decimal number, signed or not,
then nothing, a binary suffix (Ki to Ei), a decimal one (n, u, m, k, M, G, T, P, E) or an exponent
(e6, E-3). Upper and lower case differ: `m` is a thousandth and `M` a million.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from moiety.model.errors import InvalidValue

WHOLE: Final = 100
"""All of a GPU's time, in percent; a unit is one percent."""

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0} | {
    letter: 3 * power for power, letter in enumerate("kMGTPE", start=1)
}
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,4})|(?P<suffix>[A-Za-z]{0,2}))",
    re.ASCII,
)
_SMALLEST: Final = Fraction(1, 10**9)
_LARGEST: Final = (1 << 63) - 1
_NEAR: Final = {
    "kb": "k", "mb": "M", "gb": "G", "tb": "T",
    "kib": "Ki", "mib": "Mi", "gib": "Gi", "tib": "Ti",
    "ki": "Ki", "mi": "Mi", "gi": "Gi", "ti": "Ti", "pi": "Pi", "ei": "Ei",
    "g": "G", "t": "T", "p": "P", "b": "", "K": "k",
}  # fmt: skip
"""Common wrong suffixes, and the suffixes that were meant."""


class InvalidQuantity(InvalidValue):
    """A text that is no quantity of Kubernetes, or none of the wanted kind."""

    def __init__(self, text: str, problem: str, hint: str = "500m, 0.5, 20Gi, 1.5G, 12e6") -> None:
        super().__init__(f"{text!r} {problem}", hint)


def parse(text: str) -> Fraction:
    """The exact number of a quantity. Raises InvalidQuantity.

    As in Kubernetes, digits finer than a billionth are rounded away from zero. A number larger than
    2^63 - 1 is refused; Kubernetes would reduce it to that.
    """
    found = _FORM.fullmatch(text)
    if not found:
        raise InvalidQuantity(text, _problem(text))
    number, exponent, suffix = found["number"], found["exponent"], found["suffix"] or ""
    # Too large an exponent would make a number of millions of digits before it is refused.
    if exponent is not None and abs(int(exponent)) > 99 and Fraction(number):
        raise InvalidQuantity(text, "is more, or finer, than Kubernetes counts")
    if exponent is not None:
        value = Fraction(number) * Fraction(10) ** int(exponent)
    elif suffix in _BINARY:
        value = Fraction(number) * _BINARY[suffix]
    elif suffix in _DECIMAL:
        value = Fraction(number) * Fraction(10) ** _DECIMAL[suffix]
    else:
        raise InvalidQuantity(text, _unknown(suffix))
    if value % _SMALLEST:
        steps, sign = abs(value) // _SMALLEST + 1, 1 if value > 0 else -1
        value = sign * steps * _SMALLEST
    if abs(value) > _LARGEST:
        raise InvalidQuantity(text, "is more than Kubernetes counts")
    return value


def parse_bytes(text: str) -> int:
    """A number of bytes, not negative; part of a byte counts as one. Raises InvalidQuantity."""
    value = parse(text)
    if value < 0:
        raise InvalidQuantity(text, "is negative", "an amount of memory: 20Gi, 512Mi, 2G")
    if value and value < 1:
        raise InvalidQuantity(
            text, "is less than a byte (m is a thousandth)", "an amount of memory: 20Gi, 512Mi, 2G"
        )
    return -(-value.numerator // value.denominator)


def parse_count(text: str) -> int:
    """A whole number, not negative. Raises InvalidQuantity."""
    value = parse(text)
    if value < 0 or value.denominator != 1:
        raise InvalidQuantity(text, "is not a whole number", "1, 2, 3")
    return int(value)


def format_number(value: Fraction) -> str:
    """The shortest quantity of a number: `500m`, `1`, `250u`.

    Raises InvalidQuantity for a number with digits finer than a billionth.
    """
    for suffix in ("", "m", "u", "n"):
        scaled = value / Fraction(10) ** _DECIMAL[suffix]
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    raise InvalidQuantity(str(value), "is finer than Kubernetes counts")


def format_bytes(count: int) -> str:
    """A number of bytes in the largest exact binary unit: `20Gi`, `1536Mi`, `7`."""
    for suffix, factor in reversed(_BINARY.items()):
        if count and count % factor == 0:
            return f"{count // factor}{suffix}"
    return str(count)


def _problem(text: str) -> str:
    if not text.strip():
        return "is empty"
    if text != text.strip() or " " in text:
        return "has a space in it, which Kubernetes does not take"
    found = re.fullmatch(r"[+-]?[0-9.]+([A-Za-z]+)", text, re.ASCII)
    return _unknown(found[1]) if found else "is not a quantity"


def _unknown(suffix: str) -> str:
    near = _NEAR.get(suffix, _NEAR.get(suffix.lower()))
    meant = "" if near is None else f"; did you mean {near}?" if near else "; bytes have none"
    return f"has the unit {suffix}, which Kubernetes does not know{meant}"
