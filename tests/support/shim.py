"""A process with the shim in it, played in Python: it speaks the protocol and nothing more."""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import socket
import time
from pathlib import Path
from typing import TypeVar

from moiety.wire.codec import decode
from moiety.wire.layout import COUNTERS_BYTES, LEASE_BYTES, NO_GPU, HelloFlag, Refusal, Type
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
    HelloMessage,
    LeaseNoteMessage,
    RefusedMessage,
    WelcomeMessage,
)

TIMEOUT_S = 60.0
"""for what is awaited and comes: a loaded machine takes seconds"""
M = TypeVar("M", bound=Message)


class Hung(AssertionError):
    """The agent did not say what was awaited."""


class Closed(Exception):
    """The agent hung up."""


class Shim:
    """One connection to an agent. Messages that were not awaited are kept in `inbox`."""

    def __init__(self, path: str | Path, *, connect: bool = True) -> None:
        self.path = str(path)
        self.inbox: list[Message] = []
        self.serial = 0
        self.epoch = 0
        self.tenant = 0
        self.gpus: dict[int, AttachedMessage] = {}
        self.counters = os.memfd_create("counters", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.counters, COUNTERS_BYTES)
        fcntl.fcntl(self.counters, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.page: mmap.mmap | None = None
        self.page_fd = -1
        self.segments: dict[int, int] = {}
        """descriptors of host memory that came, by the segment's number"""
        if connect:
            self.connect()

    def connect(self, timeout_s: float = TIMEOUT_S) -> None:
        """Connect, trying again every 20 ms as the shim does."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            try:
                sock.connect(self.path)
            except OSError:
                sock.close()
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.02)
            else:
                self.sock = sock
                return

    @property
    def word(self) -> int:
        """The lease word as this process sees it."""
        assert self.page is not None
        return int.from_bytes(self.page[:4], "little")

    @property
    def is_open(self) -> bool:
        """Whether the gate would let work pass."""
        return bool(self.word & 1)

    # Speaking

    def send(self, message: Message, fd: int = -1) -> None:
        """One message."""
        self.send_raw(message.encode(), fd)

    def send_raw(self, packet: bytes, fd: int = -1) -> None:
        """Any bytes at all."""
        if fd >= 0:
            socket.send_fds(self.sock, [packet], [fd])
        else:
            self.sock.send(packet)

    def hello(
        self,
        program: str = "fake",
        flags: int = 0,
        epoch: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> WelcomeMessage:
        """Introduce this process and map the lease page."""
        greeting = HelloMessage(flags=flags, pid=os.getpid(), epoch=epoch, program=program)
        self.send(greeting, self.counters)
        packet, fds, _, _ = self._receive(timeout_s)
        welcome = decode(packet)
        if not isinstance(welcome, WelcomeMessage):
            raise Hung(f"no welcome but {welcome}")
        (self.page_fd,) = fds
        self.page = mmap.mmap(self.page_fd, LEASE_BYTES, prot=mmap.PROT_READ)
        self.tenant = welcome.tenant
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
        """Tell that the context exists."""
        self.send(AmountMessage(Type.CONTEXT, 0, gpu, lost_bytes))

    def alloc(self, gpu: int, amount: int, flags: int = 0) -> int:
        """Ask for bytes; returns the serial."""
        serial = self.next_serial()
        self.send(AllocMessage(serial=serial, gpu=gpu, flags=flags, bytes=amount))
        return serial

    def allocated(self, gpu: int, amount: int) -> None:
        """Ask for bytes and get them."""
        self.reply(self.alloc(gpu, amount), AmountMessage)

    def free(self, gpu: int, amount: int, resident: int) -> None:
        """Give bytes back."""
        self.send(FreeMessage(gpu=gpu, bytes=amount, resident_bytes=resident))

    def want(self) -> None:
        """Stand at the closed gate."""
        self.send(LeaseNoteMessage(Type.LEASE_REQUEST))

    def restored(self) -> None:
        """Everything is resident."""
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
        """Nothing was submitted for as long as was watched for."""
        self.send(LeaseNoteMessage(Type.IDLE, 0, self.epoch))

    def busy(self) -> None:
        """Something is submitted again."""
        self.send(LeaseNoteMessage(Type.BUSY, 0, self.epoch))

    def next_serial(self) -> int:
        """A serial for a request."""
        self.serial += 1
        return self.serial

    # Listening

    def receive(self, timeout_s: float = TIMEOUT_S) -> Message:
        """The next message; raises Hung, or Closed when the agent hung up."""
        packet, fds, _, _ = self._receive(timeout_s)
        message = decode(packet)
        for fd in fds:
            if isinstance(message, ArenaMessage) and message.segment not in self.segments:
                self.segments[message.segment] = fd
            else:
                os.close(fd)
        if isinstance(message, LeaseNoteMessage) and message.type in (Type.GRANT, Type.REVOKE):
            self.epoch = message.epoch
        return message

    def expect(self, kind: Type, timeout_s: float = TIMEOUT_S) -> Message:
        """The next message of this type; others stay in `inbox`."""
        return self._find(lambda message: message.type == kind, kind.name, timeout_s)

    def reply(self, serial: int, cls: type[M], timeout_s: float = TIMEOUT_S) -> M:
        """The answer to a request; a refusal is raised as Hung."""
        found = self._find(lambda m: m.serial == serial, f"answer {serial}", timeout_s)
        if not isinstance(found, cls):
            raise Hung(f"{found}")
        return found

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
        """Whether the agent hangs up (after whatever it still says)."""
        try:
            while True:
                self.inbox.append(self.receive(timeout_s))
        except Closed:
            return True
        except Hung:
            return False

    def close(self) -> None:
        """Let go of everything."""
        self.sock.close()
        if self.page is not None:
            self.page.close()
        for fd in (self.page_fd, self.counters, *self.segments.values()):
            if fd >= 0:
                os.close(fd)
        self.page_fd = self.counters = -1
        self.segments.clear()

    def _find(self, fits: object, what: str, timeout_s: float) -> Message:
        assert callable(fits)
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

    def _receive(self, timeout_s: float) -> tuple[bytes, list[int], int, object]:
        if not select.select([self.sock], [], [], timeout_s)[0]:
            raise Hung("the agent says nothing")
        try:
            found = socket.recv_fds(self.sock, 4096, 4)
        except ConnectionResetError:
            raise Closed from None
        if not found[0]:
            raise Closed
        return found
