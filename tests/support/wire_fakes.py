"""The two ends of the wire, played by a test: `Shim` is a process, `FakeAgent` is an agent.

Both are a `WireEnd`, which sends and receives messages. The virtual processes of `virtual_process`
have a `Shim`, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from moiety.agent.core.lease_page import LeasePage
from moiety.wire.layout import (
    LEASE_BYTES,
    LEASE_OPEN,
    NO_GPU,
    HelloFlag,
    Refusal,
    ShareFlag,
    Type,
)
from moiety.wire.message import Message
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    ArenaMessage,
    AttachedMessage,
    AttachMessage,
    DrainedMessage,
    EvictedMessage,
    FreeMessage,
    GpusMessage,
    GpusQueryMessage,
    HelloMessage,
    LeaseNoteMessage,
    PinMessage,
    QueueDepthMessage,
    RefusedMessage,
    ShareMessage,
    WelcomeMessage,
)
from moiety.wire.structs import COUNTERS_BYTES
from tests.support.wire_end import TIMEOUT_S, Closed, Hung, WireEnd

CHUNK_BYTES: Final = 2 << 20
RETRY_S: Final = 0.02
"""How long the shim waits before it tries to connect again."""


class Shim(WireEnd):
    """The end of a process: it sends what a test says, and nothing by itself."""

    def __init__(self, path: str | Path = "", *, connect: bool = True) -> None:
        super().__init__()
        self.path = str(path)
        self.serial = 0
        self.tenant = 0
        """The agent's number for this process."""
        self.gpus: dict[int, AttachedMessage] = {}
        self.counters = -1
        self.page: mmap.mmap | None = None
        self.page_fd = -1
        self.segments: dict[int, int] = {}
        """Descriptors of host memory that came, by the segment's number."""
        if connect:
            self.connect()

    def connect(self, timeout_s: float = TIMEOUT_S) -> None:
        """Connect, trying again every RETRY_S as the shim does."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            try:
                sock.connect(self.path)
            except OSError:
                sock.close()
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(RETRY_S)
            else:
                self.sock = sock
                return

    @property
    def word(self) -> int:
        """The lease word as the agent last wrote it; 0 before there is a lease page."""
        return int.from_bytes(self.page[:4], "little") if self.page is not None else 0

    @property
    def is_open(self) -> bool:
        """Whether the gate would let work pass."""
        return bool(self.word & LEASE_OPEN)

    def keep(self, message: Message, fds: list[int]) -> list[int]:
        """Map the lease page, keep host memory, and note the epoch of a lease."""
        match message:
            case WelcomeMessage():
                self._unmap()
                self.page_fd, *fds = fds
                self.page = mmap.mmap(self.page_fd, LEASE_BYTES, prot=mmap.PROT_READ)
                self.tenant = message.tenant
            case ArenaMessage() if fds and message.segment not in self.segments:
                self.segments[message.segment], *fds = fds
            case LeaseNoteMessage(type=Type.GRANT | Type.REVOKE):
                self.epoch = message.epoch
        return fds

    # What a process says

    def hello(
        self, program: str = "fake", flags: int = 0, epoch: int = 0, timeout_s: float = TIMEOUT_S
    ) -> WelcomeMessage:
        """Introduce this process and map the lease page."""
        if self.counters < 0:
            self.counters = os.memfd_create("counters", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.counters, COUNTERS_BYTES)
            fcntl.fcntl(self.counters, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        greeting = HelloMessage(flags=flags, pid=os.getpid(), epoch=epoch, program=program)
        self.send(greeting, self.counters)
        welcome = self.receive(timeout_s)
        if not isinstance(welcome, WelcomeMessage):
            raise Hung(f"no welcome but {welcome}")
        return welcome

    def resume(self, *, holding: bool) -> WelcomeMessage:
        """Connect again after the agent was lost, and say so; keeps trying, as the shim does."""
        flags = HelloFlag.RESUMED | (HelloFlag.HOLDING if holding else 0)
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            self.sock.close()
            self.connect()
            try:
                return self.hello(flags=int(flags), epoch=self.epoch)
            except (Closed, OSError):
                if time.monotonic() > deadline_s:
                    raise

    def attach(
        self,
        uuid: bytes,
        allocated: int = 0,
        resident: int = 0,
        pinned: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> AttachedMessage:
        """Attach a GPU; a refusal is raised as Hung."""
        serial = self.next_serial()
        self.send(
            AttachMessage(
                serial=serial,
                uuid=uuid,
                allocated_bytes=allocated,
                resident_bytes=resident,
                pinned_bytes=pinned,
            )
        )
        attached = self.reply(serial, AttachedMessage, timeout_s)
        self.gpus[attached.gpu] = attached
        return attached

    def lookup(self, uuid: bytes) -> AttachedMessage:
        """Ask for a GPU's limit."""
        serial = self.next_serial()
        self.send(AttachMessage(Type.LIMIT_QUERY, serial, uuid))
        return self.reply(serial, AttachedMessage)

    def context(self, gpu: int, lost_bytes: int = 0) -> None:
        """Say that the context exists, and how much of the GPU it takes."""
        self.send(AmountMessage(Type.CONTEXT, 0, gpu, lost_bytes))

    def alloc(self, gpu: int, amount: int, flags: int = 0) -> int:
        """Ask for bytes; returns the serial."""
        serial = self.next_serial()
        self.send(AllocMessage(Type.ALLOC_REQUEST, serial, gpu, flags, amount))
        return serial

    def allocated(self, gpu: int, amount: int) -> None:
        """Ask for bytes and get them."""
        self.reply(self.alloc(gpu, amount), AmountMessage)

    def free(self, gpu: int, amount: int, resident: int, flags: int = 0) -> None:
        """Give bytes back."""
        self.send(FreeMessage(gpu=gpu, flags=flags, bytes=amount, resident_bytes=resident))

    def want(self) -> None:
        """Stand at the closed gate."""
        self.send(LeaseNoteMessage(Type.LEASE_REQUEST))

    def restored(self) -> None:
        """Say that everything is resident."""
        self.send(LeaseNoteMessage(Type.RESTORED, 0, self.epoch))

    def drain(self, resident: dict[int, int]) -> None:
        """Answer a revoke, with what is resident on each GPU."""
        *others, (last, left) = resident.items() if resident else [(NO_GPU, 0)]
        for gpu, amount in others:
            self.send(AmountMessage(Type.RESIDENT, 0, gpu, amount))
        self.send(DrainedMessage(epoch=self.epoch, gpu=last, resident_bytes=left))

    def evicted(self, gpu: int, amount: int, left: int, flags: int = 1) -> None:
        """Report an eviction; by default the last step of its order."""
        self.send(EvictedMessage(gpu=gpu, bytes=amount, resident_bytes=left, flags=flags))

    def idle(self) -> None:
        """Say that nothing was submitted for the idle timeout."""
        self.send(LeaseNoteMessage(Type.IDLE, 0, self.epoch))

    def busy(self) -> None:
        """Say that something is submitted again."""
        self.send(LeaseNoteMessage(Type.BUSY, 0, self.epoch))

    def next_serial(self) -> int:
        """A serial for a request."""
        self.serial += 1
        return self.serial

    # What a process waits for

    def granted(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for a lease, restoring whatever there is room for on the way."""
        while True:
            message = self.receive(timeout_s)
            if message.type == Type.RESTORE_BUDGET:
                self.restored()
            elif message.type == Type.GRANT:
                return
            else:
                self.inbox.append(message)

    def refused(self, code: Refusal, timeout_s: float = TIMEOUT_S) -> RefusedMessage:
        """The next refusal, which must have this code."""
        found = self.expect(Type.REFUSED, timeout_s)
        assert isinstance(found, RefusedMessage)
        assert found.code == code, found
        return found

    def closed_by_agent(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the agent closes the connection, after whatever it still says."""
        try:
            while True:
                self.inbox.append(self.receive(timeout_s))
        except Closed:
            return True
        except Hung:
            return False

    def close(self) -> None:
        """Close the connection and every descriptor."""
        if self._sock is not None:
            self._sock.close()
        self._unmap()
        for fd in (self.counters, *self.segments.values()):
            if fd >= 0:
                os.close(fd)
        self.counters = -1
        self.segments.clear()

    def _unmap(self) -> None:
        if self.page is not None:
            self.page.close()
            self.page = None
        if self.page_fd >= 0:
            os.close(self.page_fd)
            self.page_fd = -1


class FakeAgent(WireEnd):
    """The end of an agent with one program: it grants requests at once, and does nothing else."""

    def __init__(
        self, path: Path, *, limit_bytes: int = 1 << 40, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        super().__init__()
        self.path = path
        self.limit_bytes = limit_bytes
        self.chunk_bytes = chunk_bytes
        self.heard: list[Message] = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        self.page: LeasePage | None = None
        self.uuids: list[bytes] = []
        """GPUs that the program attached: a GPU's number is its place."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.close()
        if self._sock is not None:
            self._sock.close()
        if self.page is not None:
            self.page.dispose()
        self.path.unlink(missing_ok=True)

    def accept(self, *, granted: bool = True) -> HelloMessage:
        """The program's hello, answered with a lease page that is open or not.

        As with an agent, the epochs of a program that was there before go on: it may still say that
        it drained in one of them.
        """
        self.listener.settimeout(TIMEOUT_S)
        hello: Message = GpusQueryMessage()
        while isinstance(hello, GpusQueryMessage):  # in a connection of its own
            self.sock, _ = self.listener.accept()
            hello = self.receive()
            if isinstance(hello, GpusQueryMessage):
                self.send(GpusMessage(serial=hello.serial))
                self.sock.close()
        assert isinstance(hello, HelloMessage)
        self.epoch = hello.epoch if hello.flags & HelloFlag.RESUMED else 0
        self.epoch += granted and not hello.flags & HelloFlag.HOLDING
        self.page = LeasePage(self.epoch, is_open=granted)
        self.send(WelcomeMessage(tenant=1, epoch=self.epoch), self.page.fd)
        return hello

    def hear(self, timeout_s: float) -> Message | None:
        """The next message, answered if it is a request; None when none came in time."""
        try:
            message = self.receive(timeout_s)
        except Hung:
            return None
        self.heard.append(message)
        if isinstance(message, AttachMessage) and message.serial:
            if message.uuid not in self.uuids:
                self.uuids.append(message.uuid)
            self.send(
                AttachedMessage(
                    serial=message.serial,
                    gpu=self.uuids.index(message.uuid),
                    limit_bytes=self.limit_bytes,
                    chunk_bytes=self.chunk_bytes,
                )
            )
        if isinstance(message, AllocMessage):
            answer = AmountMessage(Type.ALLOC_REPLY, message.serial, message.gpu, message.bytes)
            self.send(answer)
        if isinstance(message, PinMessage):
            self.send(AmountMessage(Type.PIN_REPLY, message.serial, message.gpu))
        if isinstance(message, ShareMessage) and message.type == Type.EXPORT and message.serial:
            self.send(ShareMessage(Type.EXPORT, message.serial, message.token))
        return message

    def until(self, kind: Type) -> Message:
        """Hear until a message of this type comes."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            message = self.hear(1.0)
            if message is not None and message.type == kind:
                return message
        raise AssertionError(f"no {kind.name} came; heard {self.heard[-10:]}")

    def grant(self) -> None:
        """Open the word, then say so, unless the program has seen it and ended meanwhile."""
        assert self.page is not None
        self.epoch += 1
        self.page.open(self.epoch)
        with contextlib.suppress(BrokenPipeError):
            self.send(LeaseNoteMessage(Type.GRANT, 0, self.epoch))

    def pace(self, queue_us: int) -> None:
        """Bound the program's unfinished work."""
        self.send(QueueDepthMessage(queue_us=queue_us))

    def revoke(self) -> None:
        """Close the word, say so, and wait until the program has drained."""
        assert self.page is not None
        self.page.close(self.epoch)
        self.send(LeaseNoteMessage(Type.REVOKE, 0, self.epoch))
        self.until(Type.DRAINED)

    def settle(self) -> None:
        """Wait until the program has carried out all that it was told, and hear what it said.

        It answers in order, also the question for memory that it does not share.
        """
        question = ShareMessage(Type.EXPORT, 0, flags=ShareFlag.ASKED)
        self.send(question)
        self.until(Type.IMPORT)
