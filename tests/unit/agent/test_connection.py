"""What waits in the agent until a program reads it is bounded."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.core.connection import Connection
from moiety.agent.core.read_turns import WAITING_FDS_MAX, ReadTurns

PIECES = 8


class Ends:
    """Connections of two users, none of whose programs reads."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.writers: dict[int, Callable[[], None]] = {}
        self.loop: Any = SimpleNamespace(
            add_reader=lambda *_: None,
            remove_reader=lambda _: None,
            add_writer=self.writers.__setitem__,
            remove_writer=lambda fd: self.writers.pop(fd, None),
            call_soon=lambda call, *what: self.soon.append(lambda: call(*what)),
            time=lambda: 0.0,
        )
        self.turns = ReadTurns(self.loop)
        self.theirs: list[socket.socket] = []
        self.made: list[Connection] = []
        self.ended: list[str] = []
        self.piece = os.open(os.devnull, os.O_RDONLY)

    def connect(self, account: int) -> Connection:
        """One more connection of a user."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.theirs.append(theirs)
        self.made.append(
            Connection(
                self.loop, ours, lambda _: None, self.ended.append, turn=self.turns.of(account)
            )
        )
        return self.made[-1]

    def fill(self, connection: Connection, packets: int = 2000) -> None:
        """Send packets with descriptors until it ends."""
        for _ in range(packets):
            connection.send(b"x" * 64, *[self.piece] * PIECES)
            while self.soon:
                self.soon.pop(0)()
            if connection.closed:
                return


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    for ours, theirs in zip(made.made, made.theirs, strict=True):
        ours.close()
        theirs.close()
    os.close(made.piece)


def test_descriptors_wait_up_to_a_limit_of_all_connections_of_a_user(ends: Ends) -> None:
    first, second, other = ends.connect(7), ends.connect(7), ends.connect(8)
    ends.fill(first)
    assert (ends.ended, first.closed) == (["it does not read what it is sent"], True)
    mine, its = ends.turns.of(7), ends.turns.of(8)
    assert mine.waiting_fds == 0, "they were closed with it"
    other.send(b"a place that counts for another user", ends.piece)
    while its.waiting_fds < WAITING_FDS_MAX // 2:
        other.send(b"x" * 64, *[ends.piece] * PIECES)
    while mine.waiting_fds + PIECES <= WAITING_FDS_MAX:
        second.send(b"x" * 64, *[ends.piece] * PIECES)
    third = ends.connect(7)
    ends.fill(third)
    assert third.closed
    assert not second.closed
    assert not other.closed
    third.send(b"too late")
    second.send(b"without a descriptor")
    assert (second.closed, mine.waiting_fds) == (False, WAITING_FDS_MAX)


def test_what_was_read_waits_no_more(ends: Ends) -> None:
    connection = ends.connect(7)
    turn = ends.turns.of(7)
    while turn.waiting_fds < 4 * PIECES:
        connection.send(b"x" * 64, *[ends.piece] * PIECES)
    (theirs,) = ends.theirs
    theirs.setblocking(False)
    while ends.writers:
        _, fds, _, _ = socket.recv_fds(theirs, 64, PIECES)
        assert len(fds) == PIECES
        for fd in fds:
            os.close(fd)
        next(iter(ends.writers.values()))()
    assert turn.waiting_fds == 0
