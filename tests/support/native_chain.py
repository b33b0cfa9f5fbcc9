"""Two programs whose leases depend on each other, and what the agent's native thread has armed."""

from __future__ import annotations

import contextlib
import select

from moiety.agent.core.lease_page import LeasePage
from moiety.agent.core.native_reader import NativeReader, Shot, Taken
from moiety.wire.codec import lease_note
from moiety.wire.layout import Type
from moiety.wire.messages import DrainedMessage
from tests.support.native_peers import Peer, close_all

HELD, NEXT = 7, 3
"""The epochs of the lease that is revoked, and of the one that is granted then."""
FOR_EVER_NS = (1 << 63) - 1
ASKS = lease_note(Type.LEASE_REQUEST, 0)
DRAINED = DrainedMessage(epoch=HELD, gpu=0).encode()


class Chain:
    """A holder and a program that waits, each with its lease word, and what is armed for both."""

    def __init__(self, hold_ns: int, ring_bytes: int = 1 << 16) -> None:
        self.reader = NativeReader(ring_bytes, hold_ns)
        self.asks_until_ns = 0
        """Until when the holder may ask for its next lease before it drains."""
        self.holder, self.waiter = Peer(self.reader), Peer(self.reader)
        self.held, self.next = LeasePage(HELD, is_open=True), LeasePage(NEXT - 1)

    def shots(self) -> list[Shot]:
        """The waiter asks, so the holder closes; the holder drains, so the waiter opens."""
        closes = Shot(
            self.waiter.key, self.holder.key, self.held.address, self.held.word, HELD << 1,
            Type.LEASE_REQUEST, 0, 1, Type.REVOKE, HELD, 1, 0, FOR_EVER_NS, 0,
        )  # fmt: skip
        opens = Shot(
            self.holder.key, self.waiter.key, self.next.address, self.next.word, NEXT << 1 | 1,
            Type.DRAINED, HELD, 1, Type.GRANT, NEXT, 0, 0, FOR_EVER_NS, self.asks_until_ns,
        )  # fmt: skip
        return [closes, opens]

    def arm(self) -> None:
        """Arm both."""
        assert self.reader.arm(self.shots(), 1)

    def ask(self) -> None:
        """The waiter asks; the holder has been told when this returns."""
        self.waiter.send(ASKS)
        assert heard(self.holder) == lease_note(Type.REVOKE, HELD)

    def drain(self) -> None:
        """The holder drains; the waiter has been told when this returns."""
        self.holder.send(DRAINED)
        assert heard(self.waiter) == lease_note(Type.GRANT, NEXT)

    @property
    def words(self) -> tuple[int, int]:
        """Both lease words."""
        return self.held.word, self.next.word

    @property
    def wakes(self) -> bool:
        """Whether Python is to wake up."""
        self.reader.resume(0)  # what the thread is doing now is done after that
        return bool(select.select([self.reader.event_fd], [], [], 0)[0])

    def until_read(self) -> None:
        """Until the thread has read what both sent, and has done with it; nothing else is sent."""
        poll = select.poll()
        for peer in (self.holder, self.waiter):
            poll.register(peer.ours, select.POLLIN)
        while poll.poll(0):
            pass
        self.reader.resume(0)

    def close_words(self) -> None:
        """As before the first half."""
        self.held.open(HELD)
        self.next.close(NEXT - 1)

    def take_all(self) -> None:
        """Take in all that was read."""
        while self.reader.take():
            pass

    def close(self) -> None:
        """Let go of everything."""
        while taken := self.reader.take():
            close_all(taken)
        for peer in (self.holder, self.waiter):
            if peer.ours.fileno() >= 0:
                peer.close()
        self.reader.stop()
        self.held.dispose()
        self.next.dispose()


def all_heard(peer: Peer) -> list[bytes]:
    """The packets that the agent has sent to a program."""
    packets = []
    with contextlib.suppress(BlockingIOError):
        while True:
            packets.append(peer.theirs.recv(100))
    return packets


def heard(peer: Peer) -> bytes:
    """The next packet that the agent sent to a program, as soon as it is there."""
    peer.theirs.setblocking(True)
    try:
        return peer.theirs.recv(100)
    finally:
        peer.theirs.setblocking(False)


def take_now(reader: NativeReader) -> Taken:
    """What is in the ring already, whether Python was woken for it or not."""
    taken = reader.take()
    assert taken is not None
    return taken
