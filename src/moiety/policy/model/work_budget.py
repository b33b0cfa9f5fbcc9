"""How much work a cycle may do: counted in steps, which are the same everywhere, or in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

WORK_PART: Final = 0.8
"""of the time, for deciding; the rest is for saying why others wait"""


@dataclass(slots=True)
class WorkBudget:
    """For one cycle after another: pass the same one again, and what was tried is remembered.

    A step is a task placed, or one that ended in a trial. When the budget is used up, the cycle
    ends with the best that it has found. What it tried in vain then comes last in the next cycles,
    so that small budgets reach everything in time. At least one piece is tried in each cycle.
    """

    steps: int | None = None
    """in a cycle; None: as many as it takes"""
    seconds: float | None = None
    """of a cycle in all, from reading the snapshot to the last reason"""
    clock: Callable[[], float] | None = None
    """seconds, with `seconds`: policy has none of its own"""
    spent: int = 0
    """in this cycle"""
    tried: set[tuple[str, str]] = field(default_factory=set)
    """(what, workload): in vain, and not all others have had their turn since"""
    _until_s: float = 0.0
    _end_s: float = 0.0
    _tries: int = 0

    def begin(self) -> None:
        """A cycle begins, before it has looked at its snapshot."""
        self.spent = 0
        self._tries = 0
        if self.clock and self.seconds is not None:
            now_s = self.clock()
            self._until_s = now_s + WORK_PART * self.seconds
            self._end_s = now_s + self.seconds

    def is_used_up(self) -> bool:
        """Whether nothing more should be tried; never before something was."""
        return self._tries > 0 and self._is_over()

    def _is_over(self) -> bool:
        if self.steps is not None and self.spent >= self.steps:
            return True
        return bool(self.clock and self.seconds is not None and self.clock() >= self._until_s)

    def is_past(self) -> bool:
        """Whether there is no time left to look for reasons."""
        return bool(self.clock and self.seconds is not None and self.clock() >= self._end_s)

    def stops_plan(self) -> bool:
        """Whether a plan in the making should be given up; not that of a cycle's first try."""
        return self._tries > 1 and self._is_over()

    def spend(self, steps: int = 1) -> None:
        """So much was done."""
        self.spent += steps

    def next_try(self) -> None:
        """A piece is tried."""
        self._tries += 1
