"""A process of a virtual machine that says whatever a test makes it say."""

from __future__ import annotations

import select
from typing import TypeVar

from moiety.model.share import NOTHING_ASKED, Share
from moiety.wire.layout import Type
from moiety.wire.message import Message
from moiety.wire.messages import AllocMessage, AttachMessage, HelloMessage, RefusedMessage
from tests.support.virtual_agent import World
from tests.support.wire_end import Closed, WireEnd

USER = 2000
"""Whose the liars are; the honest processes are of another user."""
M = TypeVar("M", bound=Message)


class Liar(WireEnd):
    """One process; what it says is heard at once."""

    def __init__(
        self,
        here: World,
        flags: int = 0,
        *,
        uid: int = USER,
        share: Share = NOTHING_ASKED,
        epoch: int = 0,
    ) -> None:
        super().__init__()
        self._here = here
        self._share = share
        self._uid = uid
        self._serial = 0
        self.pid = here.begin_liar()
        self.reconnect(flags, epoch)

    def reconnect(self, flags: int, epoch: int = 0) -> None:
        """Connect, anew if it did before, and greet."""
        if before := self._here.liars.pop(self.pid, None):
            before.close()
            self._here.settle()
        sock = self._here.connect(self.pid, self._share, self._uid)
        assert sock is not None
        self.sock = self._here.liars[self.pid] = sock
        self.say(HelloMessage(flags=flags, pid=self.pid, epoch=epoch, program="liar"))

    def say(self, *messages: Message) -> None:
        """Send messages; the agent has dealt with them when this returns."""
        for message in messages:
            self.send(message)
            self._here.settle()

    def heard(self, kind: type[M]) -> list[M]:
        """All messages of this class so far."""
        try:
            while True:
                self.inbox.append(self.take())
        except (BlockingIOError, Closed):
            return [message for message in self.inbox if isinstance(message, kind)]

    def attach(
        self, allocated: int = 0, resident: int = 0, pinned: int = 0, *, serial: int | None = None
    ) -> None:
        """Attach the first GPU, with what it says to have there."""
        self._serial += 1
        self.say(
            AttachMessage(
                serial=self._serial if serial is None else serial,
                uuid=self._here.uuids[0],
                allocated_bytes=allocated,
                resident_bytes=resident,
                pinned_bytes=pinned,
            )
        )

    def alloc(self, amount: int, flags: int = 0) -> None:
        """Ask for bytes on the first GPU."""
        self._serial += 1
        self.say(AllocMessage(Type.ALLOC_REQUEST, self._serial, 0, flags, amount))

    @property
    def is_cut(self) -> bool:
        """Whether the agent has hung up on it."""
        poll = select.poll()
        poll.register(self.sock, 0)
        return bool(poll.poll(0))

    @property
    def refusals(self) -> list[str]:
        """Why it was refused, in the agent's words."""
        return [message.text for message in self.heard(RefusedMessage)]

    def end(self) -> None:
        """Die."""
        self._here.end_liar(self.pid)
        self._here.settle()
