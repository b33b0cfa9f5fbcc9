"""One end of the connection between a process and the agent: what both ends have in common."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Final, TypeVar

from moiety.wire.codec import decode
from moiety.wire.layout import PIECES_MAX, Type
from moiety.wire.message import Message

TIMEOUT_S: Final = 60.0
"""How long a test waits for a message; a loaded machine takes seconds."""
PACKET_BYTES: Final = 4096
M = TypeVar("M", bound=Message)


class Hung(AssertionError):
    """The other end did not send the awaited message in time."""


class Closed(EOFError):
    """The other end closed the connection."""


class WireEnd:
    """One end of a connection. Messages that no caller awaited stay in `inbox`."""

    def __init__(self) -> None:
        self._sock: socket.socket | None = None
        self.inbox: list[Message] = []
        self.epoch = 0
        """Of the last lease that this end knows of."""

    @property
    def sock(self) -> socket.socket:
        """The connection's socket, once there is a connection."""
        assert self._sock is not None, "there is no connection yet"
        return self._sock

    @sock.setter
    def sock(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, message: Message, *fds: int) -> None:
        """Send one message, with descriptors.

        Raises:
            BlockingIOError: the socket does not block, and is full.
        """
        self.send_raw(message.encode(), *fds)

    def send_raw(self, packet: bytes, *fds: int) -> None:
        """Send any bytes at all."""
        if fds:
            socket.send_fds(self.sock, [packet], fds)
        else:
            self.sock.send(packet)

    def take(self) -> Message:
        """The next message, without waiting.

        Raises:
            BlockingIOError: there is none.
            Closed: the other end closed the connection.
        """
        try:
            packet, fds, _, _ = socket.recv_fds(
                self.sock, PACKET_BYTES, PIECES_MAX, socket.MSG_DONTWAIT
            )
        except ConnectionResetError:
            raise Closed from None
        if not packet:
            raise Closed
        message = decode(packet)
        for fd in self.keep(message, fds):
            os.close(fd)
        return message

    def keep(self, message: Message, fds: list[int]) -> list[int]:
        """Keep what came with a message; returns the descriptors that this end has no use for."""
        del message
        return fds

    def receive(self, timeout_s: float = TIMEOUT_S) -> Message:
        """The next message; raises Hung or Closed."""
        if not select.select([self.sock], [], [], timeout_s)[0]:
            raise Hung("the other end says nothing")
        return self.take()

    def expect(self, kind: Type, timeout_s: float = TIMEOUT_S) -> Message:
        """The next message of this type; others stay in `inbox`."""
        return self._find(lambda message: message.type == kind, kind.name, timeout_s)

    def reply(self, serial: int, cls: type[M], timeout_s: float = TIMEOUT_S) -> M:
        """The answer to a request; a refusal is raised as Hung."""
        found = self._find(lambda m: m.serial == serial, f"answer {serial}", timeout_s)
        if not isinstance(found, cls):
            raise Hung(f"{found}")
        return found

    def _find(self, fits: Callable[[Message], bool], what: str, timeout_s: float) -> Message:
        for message in self.inbox:
            if fits(message):
                self.inbox.remove(message)
                return message
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                message = self.receive(max(0.0, deadline_s - time.monotonic()))
            except Hung:
                raise Hung(f"no {what}; heard {self.inbox}") from None
            if fits(message):
                return message
            self.inbox.append(message)
