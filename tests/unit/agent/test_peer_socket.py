"""Descriptors that come over sockets are closed where nobody waits for it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.system import peer_socket
from moiety.agent.system.peer_socket import PeerSocket
from moiety.testing.waiting import until

HOUR_S = 3600
ALICE, BOB = 65001, 65002


@pytest.fixture
def pair() -> Iterator[tuple[PeerSocket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with PeerSocket.over(ours) as peer, theirs:
        yield peer, theirs


def stuck() -> tuple[socket.socket, list[socket.socket]]:
    """A connection whose last close waits for an hour, and what has to stay for that."""
    server = socket.create_server(("127.0.0.1", 0))
    sock = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(b"x" * 65536)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, HOUR_S))
    return sock, [server, other]


def is_closed(fd: int) -> bool:
    """Whether nobody has the other end of a pipe any more."""
    return os.read(fd, 1) == b""


def test_descriptors_that_nobody_asked_for_are_closed(
    pair: tuple[PeerSocket, socket.socket],
) -> None:
    peer, theirs = pair
    reads, writes = os.pipe()
    socket.send_fds(theirs, [b"packet"], [writes] * peer_socket.FDS_MAX)
    os.close(writes)
    assert peer.recv(100) == b"packet"
    assert is_closed(reads)
    os.close(reads)


def test_whoever_wants_them_gets_all(pair: tuple[PeerSocket, socket.socket]) -> None:
    peer, theirs = pair
    reads, writes = os.pipe()
    socket.send_fds(theirs, [b"packet"], [writes] * peer_socket.FDS_MAX)
    os.close(writes)
    packet, fds = peer.receive(100)
    assert (packet, len(fds)) == (b"packet", peer_socket.FDS_MAX)
    peer.drop(fds)
    assert is_closed(reads)
    os.close(reads)


def test_what_is_in_the_queue_goes_with_the_connection(
    pair: tuple[PeerSocket, socket.socket],
) -> None:
    peer, theirs = pair
    reads, writes = os.pipe()
    socket.send_fds(theirs, [b""], [writes])
    os.close(writes)
    peer.close()
    assert peer.fileno() == -1
    assert theirs.recv(100) == b"", "it has hung up at once"
    assert is_closed(reads)
    os.close(reads)


def test_a_lingering_connection_is_closed_at_once(pair: tuple[PeerSocket, socket.socket]) -> None:
    peer, theirs = pair
    sock, kept = stuck()
    socket.send_fds(theirs, [b"packet"], [sock.fileno()])
    packet, fds = peer.receive(100)
    sock.close()  # the copy that came is the last one
    peer.drop(fds)
    until(lambda: not os.path.exists(f"/proc/self/fd/{fds[0]}"), "it is closed")
    assert packet == b"packet"
    for each in kept:
        each.close()


def test_who_closes_slowly_holds_up_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end = threading.Event(), threading.Event()
    close = peer_socket._close

    def slowly(fd: int) -> None:
        if fd == slow:
            began.set()
            may_end.wait()
        close(fd)

    monkeypatch.setattr(peer_socket, "_close", slowly)
    (reads, writes), (slow, other) = os.pipe(), os.pipe()
    peer_socket.close_later(BOB, [slow])
    began.wait()
    peer_socket.close_later(ALICE, [writes])
    assert is_closed(reads)
    may_end.set()
    os.close(reads)
    os.close(other)


def test_a_thread_ends_when_there_is_nothing_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_socket, "_IDLE_S", 0.0)
    uid = 65003
    for _ in range(3):
        reads, writes = os.pipe()
        peer_socket.close_later(uid, [writes])
        assert is_closed(reads)
        os.close(reads)
    until(lambda: uid not in peer_socket._queues, "the thread has ended")


def test_connections_of_a_listener_are_such_sockets(tmp_path: Path) -> None:
    with PeerSocket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as theirs:
            theirs.connect(str(tmp_path / "s"))
            accepted, _ = listener.accept()
            assert isinstance(accepted, PeerSocket)
            assert accepted.uid == os.getuid()
            accepted.close()
            assert theirs.recv(1) == b""
