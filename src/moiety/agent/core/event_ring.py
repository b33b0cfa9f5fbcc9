"""The last events of a node in memory: no user's events push out those of another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from moiety.agent.core.journal_events import Event


class EventRing:
    """The events that are kept, the oldest first.

    Once there are `maxlen`, each new event drops the oldest one of the user that has the most.
    Events of no user, as those of a GPU, count as one user's.
    """

    def __init__(self, events: Iterable[Event], maxlen: int) -> None:
        self.maxlen = maxlen
        self._events: dict[int, Event] = {}
        """By number; numbers increase."""
        self._by_user: dict[int | None, deque[int]] = {}
        for event in events:
            self.append(event)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        """Each event, the oldest first."""
        return iter(self._events.values())

    def __reversed__(self) -> Iterator[Event]:
        """Each event, the newest first."""
        return reversed(self._events.values())

    def append(self, event: Event) -> None:
        """Keep an event, whose number is higher than all before."""
        self._events[event.number] = event
        self._by_user.setdefault(event.uid, deque()).append(event.number)
        if len(self._events) > self.maxlen:
            self._drop()

    def after(self, number: int, most: int) -> list[Event]:
        """Return the oldest events after this number; `most` limits how many."""
        newer: list[Event] = []
        for event in reversed(self):
            if event.number <= number:
                break
            newer.append(event)
        return newer[: -most - 1 : -1]

    def _drop(self) -> None:
        uid, numbers = max(self._by_user.items(), key=lambda each: len(each[1]))
        del self._events[numbers.popleft()]
        if not numbers:
            del self._by_user[uid]
