"""Taking in all that programs have said by now, before a command hears what they have.

Messages of programs come by the native thread, and it tells the agent a few milliseconds late
(fast_handoff.py). A command that a program's own words were sent before must not overtake them.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Mapping
from typing import Final

from moiety.agent.core.client import Client

MOST_S: Final = 0.25
"""Programs that say more and more hold up a command for so long."""
_AGAIN_S: Final = 0.0005


async def catch_up(clients: Mapping[int, Client], take: Callable[[], bool]) -> None:
    """Return once no program has unread words, or after `MOST_S`.

    `take` takes in what the native thread has read; False: there is more.
    """
    until_s = time.monotonic() + MOST_S
    while True:
        is_read = not _has_unread(clients)  # before: what is read later is not meant
        if (take() and is_read) or time.monotonic() >= until_s:
            return
        await asyncio.sleep(_AGAIN_S)


def _has_unread(clients: Mapping[int, Client]) -> bool:
    poll = select.poll()
    for client in clients.values():
        if client.connection.is_read:
            poll.register(client.connection.fd, select.POLLIN)
    return bool(poll.poll(0))
