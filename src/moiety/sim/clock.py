"""Virtual time: events, in the order of their times."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from moiety.model.errors import InternalError

Action = Callable[[], None]


class Clock:
    """Time that jumps from one event to the next. Starts at `now_s`.

    Events of one moment happen in the order of their `rank`, and events of one rank in the order in
    which they were scheduled: so a replay is the same every time.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s
        self._count = 0
        self._events: list[tuple[float, int, int, Action]] = []

    def __len__(self) -> int:
        return len(self._events)

    def at(self, when_s: float, action: Action, rank: int = 0) -> None:
        """Schedule an action; raises InternalError if its time has passed."""
        if when_s < self.now_s:
            raise InternalError(f"an event at {when_s:g} s, but it is {self.now_s:g} s already")
        self._count += 1
        heapq.heappush(self._events, (when_s, rank, self._count, action))

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        if not self._events:
            return False
        self.now_s, _, _, action = heapq.heappop(self._events)
        action()
        return True

    def run(self, until_s: float | None = None) -> None:
        """Run all events, or the events until `until_s`, which is then the present time."""
        while self._events and (until_s is None or self._events[0][0] <= until_s):
            self.step()
        if until_s is not None:
            self.now_s = max(self.now_s, until_s)
