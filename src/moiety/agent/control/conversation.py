"""What a request that takes long can do with the connection on which it came."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from moiety.agent.control import protocol
from moiety.agent.core.rate_limits import RateLimits


@dataclass(frozen=True, slots=True)
class Conversation:
    """The connection of one command."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def tell(self, answer: protocol.Answer) -> None:
        """Send one line; raises OSError, or TimeoutError if the command does not read."""
        self.writer.write(protocol.encode(answer) + b"\n")
        await asyncio.wait_for(self.writer.drain(), RateLimits.SILENCE_S)

    async def hung_up(self) -> None:
        """Return when the command has ended, or says something before it has its answer."""
        with contextlib.suppress(OSError):  # it did not read all that it was told
            await self.reader.read(1)
