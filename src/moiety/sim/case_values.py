"""Values of a case of a scenario, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BadCase(ValueError):
    """A value that makes no sense; `key` is its place in the case."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def as_object(value: Any, key: str) -> Mapping[str, Any]:
    """An object of JSON. Raises BadCase, as all functions of this module."""
    if not isinstance(value, dict):
        raise BadCase(key, "it is not an object")
    return value


def text(row: Mapping[str, Any], name: str, where: str) -> str:
    """A name."""
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise BadCase(f"{where}.{name}", f"it is not a name: {value!r}")
    return value


def number(row: Mapping[str, Any], name: str, where: str, default: float | None = None) -> float:
    """A number that is not negative; the default if it is absent or null."""
    value = row.get(name)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise BadCase(f"{where}.{name}", f"it is not a number: {value!r}")
    if value < 0 or value > 1e15:
        shown = f"{value:g}" if abs(value) < 1e300 else "more than anything"
        raise BadCase(f"{where}.{name}", f"it is negative or far too large: {shown}")
    return value


def amount(row: Mapping[str, Any], name: str, where: str, scale: int = 1) -> int | None:
    """A bound; None where there is none."""
    if row.get(name) is None:
        return None
    return round(number(row, name, where) * scale)
