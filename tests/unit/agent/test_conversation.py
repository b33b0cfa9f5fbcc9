"""The connection of a command that waits."""

from __future__ import annotations

import asyncio
import socket

from moiety.agent.control import protocol
from moiety.agent.control.conversation import Conversation


def test_a_line_is_told_and_the_end_of_the_command_is_seen() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            conversation = Conversation(reader, writer)
            await conversation.tell(protocol.Waiting(1, 2, "full"))
            line = theirs.recv(4096)
            assert protocol.decode_answer(line) == protocol.Waiting(1, 2, "full")
            gone = asyncio.ensure_future(conversation.hung_up())
            await conversation.tell(protocol.Done())
            assert not gone.done()
        await gone
        writer.close()

    asyncio.run(main())
