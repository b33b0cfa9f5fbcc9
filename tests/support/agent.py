"""An agent played by a test: it says exactly what it is told to, and records what it hears."""

from __future__ import annotations

import os
import select
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from moiety.agent.shim.lease_page import LeasePage
from moiety.wire.codec import decode
from moiety.wire.layout import HelloFlag, ShareFlag, Type
from moiety.wire.message import Message
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    AttachedMessage,
    AttachMessage,
    HelloMessage,
    LeaseNoteMessage,
    QueueDepthMessage,
    ShareMessage,
    WelcomeMessage,
)

TIMEOUT_S = 60.0
CHUNK_BYTES = 2 << 20


class FakeAgent:
    """One socket, one program. Requests are granted at once; nothing else happens by itself."""

    def __init__(
        self, path: Path, *, limit_bytes: int = 1 << 40, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.chunk_bytes = chunk_bytes
        self.heard: list[Message] = []
        self.epoch = 0
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        self.page: LeasePage | None = None
        self.sock: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.close()
        if self.sock is not None:
            self.sock.close()
        if self.page is not None:
            self.page.dispose()
        self.path.unlink(missing_ok=True)

    def accept(self, *, granted: bool = True) -> HelloMessage:
        """The program's hello, answered with a lease page that is open or not.

        As with an agent, the epochs of a program that was there before go on: it may still say that
        it drained in one of them.
        """
        self.listener.settimeout(TIMEOUT_S)
        self.sock, _ = self.listener.accept()
        packet, fds, _, _ = socket.recv_fds(self.sock, 4096, 1)
        for fd in fds:
            os.close(fd)
        hello = decode(packet)
        assert isinstance(hello, HelloMessage)
        self.epoch = hello.epoch if hello.flags & HelloFlag.RESUMED else 0
        self.epoch += granted and not hello.flags & HelloFlag.HOLDING
        self.page = LeasePage(self.epoch, is_open=granted)
        welcome = WelcomeMessage(tenant=1, epoch=self.epoch)
        socket.send_fds(self.sock, [welcome.encode()], [self.page.fd])
        return hello

    def send(self, message: Message, *fds: int) -> None:
        """Say anything, with any descriptors."""
        assert self.sock is not None
        socket.send_fds(self.sock, [message.encode()], fds)

    def hear(self, timeout_s: float) -> Message | None:
        """The next message, answered if it is a request; None when none came in time."""
        assert self.sock is not None
        if not select.select([self.sock], [], [], timeout_s)[0]:
            return None
        packet = self.sock.recv(4096)
        if not packet:
            raise EOFError("the program hung up")
        message = decode(packet)
        self.heard.append(message)
        if isinstance(message, AttachMessage) and message.serial:
            self.send(
                AttachedMessage(
                    serial=message.serial,
                    limit_bytes=self.limit_bytes,
                    chunk_bytes=self.chunk_bytes,
                )
            )
        if isinstance(message, AllocMessage):
            answer = AmountMessage(Type.ALLOC_REPLY, message.serial, message.gpu, message.bytes)
            self.send(answer)
        return message

    def until(self, kind: Type) -> Message:
        """Hear until a message of this type comes."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            message = self.hear(1.0)
            if message is not None and message.type == kind:
                return message
        raise AssertionError(f"no {kind.name} came; heard {self.heard[-10:]}")

    def settle(self) -> None:
        """Wait until the program has carried out all that it was told, and hear what it said.

        It answers in order, also the question for memory that it does not share.
        """
        question = ShareMessage(Type.EXPORT, 0, flags=ShareFlag.ASKED)
        self.send(question)
        self.until(Type.IMPORT)

    def grant(self) -> None:
        """Open the word, then say so."""
        assert self.page is not None
        self.epoch += 1
        self.page.open(self.epoch)
        self.send(LeaseNoteMessage(Type.GRANT, 0, self.epoch))

    def pace(self, queue_us: int) -> None:
        """Bound its unfinished work."""
        self.send(QueueDepthMessage(queue_us=queue_us))

    def revoke(self) -> None:
        """Close the word, say so, and wait until the program has drained."""
        assert self.page is not None
        self.page.close(self.epoch)
        self.send(LeaseNoteMessage(Type.REVOKE, 0, self.epoch))
        self.until(Type.DRAINED)
