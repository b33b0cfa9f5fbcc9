"""Durations in the words of an explanation."""

from __future__ import annotations

from typing import Final

UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float) -> str:
    """In its two largest units: "40 s", "35 min", "1 h 10 min", "2 d 3 h"."""
    whole = round(seconds)
    if whole >= 600:  # seconds are of no use then
        whole = round(whole / 60) * 60
    if whole >= 86400:
        whole = round(whole / 3600) * 3600
    parts = []
    for unit, size in UNITS:
        number, whole = divmod(whole, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"
