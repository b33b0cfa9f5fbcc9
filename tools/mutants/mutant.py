"""One mistake, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with a mistake in it."""

    name: str
    path: str
    """Relative to the checkout."""
    text: str
    """The whole file, with the mistake."""
    tests: Sequence[tuple[str, ...]]
    """Arguments of pytest, one run after the other."""


class Fate(Enum):
    """What the tests made of it."""

    NOTICED = "noticed"
    TIMED_OUT = "timed out"
    """They hung, which counts as noticed."""
    ALIVE = "ALIVE"
    UNKNOWN = "unknown"
    """Tests that failed with it fail without it as well."""
