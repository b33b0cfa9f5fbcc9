"""Waiting in tests: for an event, or by polling where there is no event.

A test waits for an event: a line in a pipe, the end of a process, a message, a change of a fake
(`Changes`), an event of the agent (`Node.until_told`). `until` polls states without an event: the
figures of `ps` and `status`, /proc, files, another system's objects. The condition must stay true
once it is true. The deadline ends a test that hangs, and no result depends on its length.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

DEADLINE_S: Final = 120.0
"""A test that waits longer hangs; nothing is ever this slow."""
STEP_S: Final = 0.01


def until(
    condition: Callable[[], Any],
    what: str = "",
    deadline_s: float = DEADLINE_S,
    *,
    step_s: float = STEP_S,
) -> Any:
    """Wait until `condition` returns a true value, and return that value.

    It is called every `step_s` seconds: choose a longer step for an expensive condition.

    Raises:
        AssertionError: it was not true within `deadline_s` seconds; names `what`.
    """
    end_s = time.monotonic() + deadline_s
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise AssertionError(f"waited in vain: {what or condition}")
        time.sleep(step_s)
    return found


class Changes:
    """Wakes the waiting tasks of one event loop after a change. Fakes have one."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Wake all waiting tasks."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def next(self) -> asyncio.Future[None]:
        """The next change after this call, to be awaited now or later."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        return change

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until `condition` is true after a change, and return what it returned."""
        while not (found := condition()):
            await self.next()
        return found
