"""How tests wait: for an event, and only where there is none by looking again and again.

A test waits for something that tells: a line in a pipe, the end of a process, a message, a change
of a fake (`Changes`), an event of the agent (`Node.until_told`). `until` is for what has no event:
the figures of `ps` and `status`, /proc, files, another system's objects. It waits for what stays
true once it is true. Its deadline ends a test that hangs, and no result depends on how long it is.
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
    """Wait for what `condition` returns to be true, and return it.

    It is asked again every `step_s` seconds: longer ones are for questions that are expensive.

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
    """Tells those who wait, in one event loop, that something changed. Fakes have one."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Something changed."""
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
