"""The agent's native thread with sockets to read, for tests of what it reads and what fires.

Each step is waited for: by the descriptor that says that a packet is there, or by a call that takes
the thread's lock after it.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence

from moiety.agent.core.native_reader import LIBRARY, NativeReader, Taken
from tests.support.native import native_dir

ALICE, BOB = 65001, 65002
TIMEOUT_MS = 60_000


def is_built() -> bool:
    """Whether there is such a thread here."""
    folder = native_dir()
    return folder is not None and (folder / LIBRARY).exists()


class Peer:
    """A process that the thread reads."""

    def __init__(
        self, reader: NativeReader, account: int = ALICE, sent: Sequence[bytes] = ()
    ) -> None:
        """`sent` is there before the thread looks."""
        self.reader = reader
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.ours, self.theirs):
            end.setblocking(False)
        self.send(*sent)
        self.key = reader.add(self.ours.fileno(), account)
        assert self.key

    def send(self, *packets: bytes) -> None:
        """Send some packets, without waiting."""
        for packet in packets:
            self.theirs.send(packet)

    def close(self) -> None:
        """Have the thread leave it alone, and close both ends."""
        self.reader.remove(self.key)
        self.ours.close()
        self.theirs.close()


def close_all(taken: Taken) -> None:
    """Close what came with a packet."""
    for fd in taken.fds:
        os.close(fd)


def take(reader: NativeReader) -> Taken:
    """The next packet, as soon as it is there."""
    poll = select.poll()
    poll.register(reader.event_fd, select.POLLIN)
    assert poll.poll(TIMEOUT_MS), "nothing came"
    taken = reader.take()
    assert taken is not None
    return taken


def settle(reader: NativeReader, *peers: Peer) -> None:
    """Until the thread has read what these sent, or has stopped reading them."""
    last = Peer(reader, BOB)
    last.send(b"last")
    poll = select.poll()
    poll.register(last.ours, select.POLLIN)
    for peer in peers:
        poll.register(peer.ours, select.POLLIN)
    while any(fd == last.ours.fileno() for fd, _ in poll.poll(0)):
        pass
    reader.resume(0)
    last.close()


Connect = Callable[..., Peer]
