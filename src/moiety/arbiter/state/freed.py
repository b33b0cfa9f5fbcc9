"""Bytes that a tenant freed just now: for a moment they still count as its own.

A program that frees memory and allocates as much again has not grown. Other tenants must not take
the room for good in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

FREED_S: Final = 1.0
"""How long freed bytes count."""
_TOGETHER_S: Final = 0.1
"""Frees within this time are kept as one, so that their number is bounded."""


@dataclass(slots=True)
class Freed:
    """What one tenant freed on one GPU within the last moment."""

    total: int = 0
    """Bytes that count now."""
    _by_time: list[tuple[float, int]] = field(default_factory=list)
    """(when the bytes count no more, bytes), the soonest first."""

    @property
    def until_s(self) -> float:
        """When none of the bytes count any more; -inf if none do now."""
        return self._by_time[-1][0] if self._by_time else -math.inf

    def add(self, now_s: float, more: int) -> None:
        """Count bytes that are freed now."""
        if more <= 0:
            return
        self.total += more
        if self._by_time and now_s + FREED_S - self._by_time[-1][0] < _TOGETHER_S:
            until_s, before = self._by_time.pop()
            self._by_time.append((until_s, before + more))
        else:
            self._by_time.append((now_s + FREED_S, more))

    def use(self, less: int) -> None:
        """Count fewer bytes: that many are allocated again."""
        while less > 0 and self._by_time:
            until_s, there = self._by_time.pop(0)
            taken = min(less, there)
            less -= taken
            self.total -= taken
            if there > taken:
                self._by_time.insert(0, (until_s, there - taken))

    def expire(self, now_s: float) -> None:
        """Forget the bytes whose moment is over."""
        while self._by_time and self._by_time[0][0] <= now_s:
            self.total -= self._by_time.pop(0)[1]
