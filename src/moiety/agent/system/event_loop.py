"""The parts of asyncio's event loop that the agent uses, so that a test can supply its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Drop the call."""


class TimerLoop(Protocol):
    """A clock with timers."""

    def time(self) -> float:
        """Return the loop's time in seconds."""

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back at a time of this clock."""


class DelayLoop(Protocol):
    """Timers without a clock."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        """Call back after a delay in seconds."""


class EventLoop(TimerLoop, DelayLoop, Protocol):
    """The clock, with descriptors and calls from other threads."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back after the present callback."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Call back in the loop's own thread; raises RuntimeError once the loop has ended."""

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> Any:
        """Call back whenever the descriptor is readable."""

    def remove_reader(self, fd: int) -> Any:
        """Stop watching the descriptor for reading."""

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> Any:
        """Call back whenever the descriptor accepts data."""

    def remove_writer(self, fd: int) -> Any:
        """Stop watching the descriptor for writing."""
