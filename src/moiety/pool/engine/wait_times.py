"""Since when work waits that could not begin at once after it was submitted.

It was held, was to begin later, depended on other work, or ran before. Time counts from when it
could begin, as far as the engine has seen that: for an engine that has just begun, from submission.
"""

from __future__ import annotations

from collections.abc import Mapping


class WaitTimes:
    """By the engine's names of workloads."""

    def __init__(self) -> None:
        self.later: set[str] = set()
        """What waits and may not be tried, as far as it is known by now."""
        self._before: set[str] = set()
        """The same at the decision before."""
        self._since: dict[str, float] = {}

    def again(self, name: str) -> None:
        """A workload that was not there, or ran, waits."""
        self._before.add(name)

    def over(self, name: str) -> None:
        """A workload waits no more."""
        self._since.pop(name, None)
        self._before.discard(name)

    def at(self, now_s: float) -> Mapping[str, float]:
        """Since when work could begin that could not at first, once `later` is complete."""
        for name in self._before - self.later:
            self._since[name] = now_s
        for name in self.later:
            self._since.pop(name, None)
        self._before, self.later = self.later, set()
        return dict(self._since)
