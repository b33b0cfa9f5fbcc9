"""Turns of reading: one user's many connections delay the messages of others no longer than one.

The loop reads connections as they become ready. A user whose connections have more to read than a
turn gets the rest read in turns too, a few packets each: between two of them the loop serves all
others. The connections of a user take turns among themselves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from moiety.agent.system.event_loop import EventLoop

PACKETS_A_TURN: Final = 64
"""Packets of one user that are read before those of others."""
PACKETS_BEHIND: Final = 16
"""The same while some of this user's connections wait."""
WAITING_FDS_MAX: Final = 1024
"""Descriptors that may wait until one user's programs read: each is one of the agent's."""
REST_S: Final = 0.005
"""Seconds after which a user has a whole turn again."""


class UserTurn:
    """The turn of one user, for all its connections."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self.left = PACKETS_A_TURN
        """Packets that may be read now."""
        self.waiting_fds = 0
        """Descriptors that its connections have not taken yet."""
        self._since_s = -math.inf
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def begin(self) -> bool:
        """Whether a connection that is ready may read now; else it waits (`wait`)."""
        if self._waiting:
            return False
        now_s = self._loop.time()
        if now_s - self._since_s >= REST_S:
            self.left, self._since_s = PACKETS_A_TURN, now_s
        return self.left > 0

    def spend(self, packets: int) -> None:
        """Note what was read."""
        self.left -= packets
        if self.left <= 0:
            self._since_s = self._loop.time()

    def wait(self, read: Callable[[], None]) -> None:
        """Have a connection read when it is its turn."""
        self._waiting.append(read)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Read the connections that waited longest; then others are served."""
        self._is_due = False
        self.left = PACKETS_BEHIND
        for _ in range(len(self._waiting)):
            if self.left <= 0:
                break
            self._waiting.popleft()()
        if self._waiting and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)


class ReadTurns:
    """The turns of all users of one agent."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._turns: WeakValueDictionary[int, UserTurn] = WeakValueDictionary()

    def of(self, account: int) -> UserTurn:
        """The turn of a user, which lives as long as its connections."""
        turn = self._turns.get(account)
        if turn is None:
            turn = self._turns[account] = UserTurn(self._loop)
        return turn
