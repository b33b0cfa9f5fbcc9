"""How much work a cycle may do: counted in steps, which are the same everywhere, or in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

WORK_PART: Final = 0.8
"""The part of the time for deciding; the rest is for the reasons of waiting workloads."""


@dataclass(slots=True)
class WorkBudget:
    """The budget of successive cycles: pass the same object again, and it remembers what was tried.

    A step is a task placed, or one that ended in a trial. When the budget is used up, the cycle
    ends with the best that it has found. What it tried in vain then comes last in the next cycles,
    so that small budgets reach everything in time. At least one piece is tried in each cycle.
    """

    steps: int | None = None
    """The most steps of a cycle; None: as many as it takes."""
    seconds: float | None = None
    """The time of a cycle in all, from reading the snapshot to the last reason."""
    clock: Callable[[], float] | None = None
    """A clock in seconds, needed for `seconds`: the engine has none of its own."""
    spent: int = 0
    """The steps of this cycle so far."""
    tried: set[tuple[str, str]] = field(default_factory=set)
    """(step of the cycle, workload) tried in vain, while not all others had their turn since."""
    _until_s: float = 0.0
    _end_s: float = 0.0
    _tries: int = 0

    def begin(self) -> None:
        """Begin a cycle, before it has looked at its snapshot."""
        self.spent = 0
        self._tries = 0
        if self.clock and self.seconds is not None:
            now_s = self.clock()
            self._until_s = now_s + WORK_PART * self.seconds
            self._end_s = now_s + self.seconds

    @property
    def is_bounded(self) -> bool:
        """Whether it ends at all."""
        return self.steps is not None or self.seconds is not None

    def is_used_up(self) -> bool:
        """Whether nothing more should be tried; never before the first try."""
        return self._tries > 0 and self._is_over()

    def _is_over(self) -> bool:
        if self.steps is not None and self.spent >= self.steps:
            return True
        return bool(self.clock and self.seconds is not None and self.clock() >= self._until_s)

    def is_past(self) -> bool:
        """Whether there is no time left to look for reasons."""
        return bool(self.clock and self.seconds is not None and self.clock() >= self._end_s)

    def stops_plan(self) -> bool:
        """Whether a plan in the making should be given up; never that of a cycle's first try."""
        return self._tries > 1 and self._is_over()

    def spend(self, steps: int = 1) -> None:
        """Count steps that were done."""
        self.spent += steps

    def next_try(self) -> None:
        """Count one more piece that is tried."""
        self._tries += 1
