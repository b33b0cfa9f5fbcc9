"""A clock that moves when a test says so."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class FakeTimer:
    """A scheduled call, which can be cancelled."""

    def __init__(self, when_s: float, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.when_s = when_s
        self.cancelled = False
        self._call = call
        self._args = args

    def cancel(self) -> None:
        """Cancel the call."""
        self.cancelled = True

    def fire(self) -> None:
        """Call, unless cancelled."""
        if not self.cancelled:
            self._call(*self._args)


class FakeClock:
    """A clock that only `advance` moves; it has the timer methods of an event loop."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def time(self) -> float:
        """The present time in seconds."""
        return self._now_s

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        """Call back once `advance` reaches `when`."""
        timer = FakeTimer(when, callback, args)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def advance(self, by_s: float) -> None:
        """Let time pass; timers fire in order, each at its own time."""
        end_s = self._now_s + by_s
        while self._timers and self._timers[0][0] <= end_s:
            when_s, _, timer = heapq.heappop(self._timers)
            self._now_s = max(self._now_s, when_s)
            timer.fire()
        self._now_s = end_s
