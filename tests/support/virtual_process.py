"""A virtual process: a `SimulatedTenant` whose events and instructions pass a `Shim`'s socket.

It connects again when its connection is lost, as the shim does, and then says what it has.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Final

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.wire import messages as wire
from moiety.wire.layout import AllocFlag, EvictedFlag, HelloFlag, Type
from moiety.wire.message import Message
from tests.support.simulated_tenants import SimulatedTenant
from tests.support.wire_end import Closed
from tests.support.wire_fakes import Shim

LONG_QUEUE_S: Final = 0.01
"""How long the submitted work of a program without a bound takes when it is revoked."""

Connect = Callable[["VirtualProcess"], socket.socket | None]
"""Makes a connection to the agent that does not block; None: the agent is not there."""


class VirtualProcess(SimulatedTenant):
    """One process; `number` is its pid. Nothing happens in it but through `work`."""

    def __init__(self, pid: int, connect: Connect, now_s: Callable[[], float], uuids: list[bytes]):
        self._shim = Shim(connect=False)
        super().__init__(pid)
        self._connect = connect
        self._now_s = now_s
        self._uuids = uuids
        self._busy_until_s = 0.0
        self.is_connected = False
        self.joins = 0
        """Connections that it made."""
        self._resumes = False
        self._is_pinned = False
        self.claims_lease = False
        """It says that it has one, and lies."""

    # Its lease is a word in memory, as the agent last wrote it

    @property
    def tenant(self) -> int:
        """The agent's number for it."""
        return self._shim.tenant

    @property
    def is_open(self) -> bool:
        """Whether the gate lets work pass."""
        return self._shim.is_open

    @is_open.setter
    def is_open(self, value: bool) -> None:
        """Nobody but the agent says so."""

    @property
    def is_running(self) -> bool:
        """Whether its last work goes on: it waits for a thread, or just takes its time."""
        return super().is_running or self._now_s() < self._busy_until_s

    @property
    def is_idle_on_wire(self) -> bool:
        """Whether it has said all, and waits for no answer."""
        is_answered = all(block.admitted for block in self.blocks)
        return not self.sent and not self.attaching and is_answered

    def touch(self) -> None:
        """Use the GPU, with as much work ahead as its bound as it knows it allows."""
        super().touch()
        if self.is_open:
            self._busy_until_s = self._now_s() + (self.queue_s or LONG_QUEUE_S)

    def pin(self, call: str) -> None:
        """Do something after which no memory can leave, and never forget it."""
        self._is_pinned = True
        super().pin(call)

    # Coming and going

    def work(self) -> bool:  # type: ignore[override]
        """Do one thing, if there is one."""
        if self.stopped:
            return False
        if not self.is_connected:
            return self._come_back()
        if not self.hung and self._is_cut_off():
            self._hear_last_words()
            return True
        heard = False if self.hung else self._hear()
        worked = self.has_work
        if worked:
            super().work()
        return self._say() or heard or worked

    def drop(self) -> None:
        """Lose the connection, whoever's fault it was."""
        if self.is_connected:
            self._shim.sock.close()
            self.is_connected = False
            self._resumes = True

    def dispose(self) -> None:
        """Die: every descriptor is closed."""
        self.is_connected = False
        self._shim.close()

    def _come_back(self) -> bool:
        """Connect, and say what there is; with a lost agent all that it had ordered is void."""
        sock = self._connect(self)
        if sock is None:
            return False
        self._shim.sock, self.is_connected = sock, True
        self.joins += 1
        flags = 0
        if self._resumes:
            # Work that cannot end keeps its lease: nothing of it has left.
            goes_on = self.draining is not None and self.is_running
            flags = HelloFlag.RESUMED | (HelloFlag.HOLDING if self.is_open or goes_on else 0)
            flags |= HelloFlag.PINNED if self._is_pinned else 0
        if self.claims_lease:
            flags = HelloFlag.RESUMED | HelloFlag.HOLDING
        # What was said before and is not sent yet is told again by what follows.
        self.sent.clear()
        self.inbox.clear()
        self.orders.clear()
        self.credit.clear()
        self.restoring = self.watched = self.told_idle = False
        self.draining = None
        self.queue_s = 0.0
        stood, self.wanted = self.wanted, False
        program = f"process{self.number}"
        self._send(
            wire.HelloMessage(flags=int(flags), pid=self.number, epoch=self.epoch, program=program)
        )
        for gpu in sorted(self.contexts):
            self._send(self._state(gpu))
        for serial, (gpu, _) in self.attaching.items():
            self._send(wire.AttachMessage(serial=serial, uuid=self._uuids[gpu]))
        for serial, (gpu, amount) in self.needing.items():
            self._send(wire.AllocMessage(Type.DRIVER_OOM, serial, gpu, 0, amount))
        for block in self.blocks:
            if not block.admitted:
                pinned = AllocFlag.PINNED if block.pinned else 0
                self._send(
                    wire.AllocMessage(
                        Type.ALLOC_REQUEST, block.serial, block.gpu, pinned, block.bytes
                    )
                )
        if stood and not self.is_open:
            self.touch()
        return True

    def _state(self, gpu: int) -> wire.AttachMessage:
        here = [b for b in self.blocks if b.gpu == gpu and b.admitted]
        return wire.AttachMessage(
            uuid=self._uuids[gpu],
            allocated_bytes=sum(b.bytes for b in here),
            resident_bytes=self.resident_bytes(gpu),
            pinned_bytes=sum(b.bytes for b in here if b.pinned),
        )

    def _can_restore(self) -> bool:
        """Not with room that an agent gave which is gone: it may be another's by now."""
        return super()._can_restore() and not self._is_cut_off()

    def _is_cut_off(self) -> bool:
        if not self.is_connected:
            return True
        poll = select.poll()
        poll.register(self._shim.sock, 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))

    # Hearing

    def _hear(self) -> bool:
        """Read one message; several wait in `inbox` while a move goes on, as in the shim."""
        try:
            message = self._shim.take()
        except BlockingIOError:
            return False
        except Closed:
            self.drop()
            return True
        if (told := self._told(message)) is not None:
            self.inbox.append(told)
        return True

    def _hear_last_words(self) -> None:
        """Read the agent's reason for hanging up; the rest is void, other processes may have it."""
        while self.is_connected:
            if not self._hear():
                self.drop()
        self.inbox.clear()

    def _told(self, message: Message) -> do.Instruction | None:
        me = self.number
        match message:
            case wire.AttachedMessage(serial=serial, gpu=gpu) if serial in self.attaching:
                return do.Admitted(me, gpu, serial)
            case wire.AmountMessage(type=Type.ALLOC_REPLY, serial=serial, gpu=gpu):
                return do.Admitted(me, gpu, serial)
            case wire.RefusedMessage(serial=serial, text=text) if serial:
                return do.Refused(me, 0, serial, "capacity", text)
            case wire.AmountMessage(type=Type.RESTORE_BUDGET, gpu=gpu, bytes=amount):
                return do.RestoreBudget(me, gpu, amount)
            case wire.AmountMessage(type=Type.EVICT, gpu=gpu, bytes=amount):
                return do.Evict(me, gpu, amount)
            case wire.LeaseNoteMessage(type=Type.GRANT, epoch=epoch):
                return do.Grant(me, epoch)
            case wire.LeaseNoteMessage(type=Type.REVOKE, epoch=epoch):
                return do.Revoke(me, epoch)
            case wire.LeaseNoteMessage(type=Type.ALLOW_ONE, epoch=epoch):
                return do.AllowOne(me, epoch)
            case wire.IdleTimeoutMessage(idle_us=idle_us):
                return do.SetIdleTimeout(me, idle_us / 1e6)
            case wire.QueueDepthMessage(queue_us=queue_us):
                return do.SetQueueDepth(me, queue_us / 1e6)
        return None

    def _admitted(self, told: do.Admitted) -> None:
        attached = self.attaching.get(told.serial)
        super()._admitted(told)
        if self.is_open:
            self.map()  # the thread that asked goes on at once
        if attached:
            self._send(wire.AmountMessage(Type.CONTEXT, 0, attached[0], attached[1]))

    # Speaking

    def _say(self) -> bool:
        """Send what it has to say; what does not fit waits, as the shim's threads would."""
        said = False
        while self.sent and self.is_connected:
            if not self._send(self._message(self.sent[0])):
                break
            self.sent.popleft()
            said = True
        return said

    def _send(self, message: Message) -> bool:
        """Send a message; False: the socket is full."""
        try:
            self._shim.send(message)
        except BlockingIOError:
            return False
        except OSError:
            pass  # the agent hung up, which the next `_hear` finds
        return True

    def _message(self, event: ev.Event) -> Message:
        match event:
            case ev.Attach():
                return wire.AttachMessage(serial=event.serial, uuid=self._uuids[event.gpu])
            case ev.AllocRequest():
                pinned = AllocFlag.PINNED if event.pinned else 0
                return wire.AllocMessage(
                    Type.ALLOC_REQUEST, event.serial, event.gpu, pinned, event.bytes
                )
            case ev.DriverOom():
                return wire.AllocMessage(Type.DRIVER_OOM, event.serial, event.gpu, 0, event.bytes)
            case ev.Free():
                pinned = AllocFlag.PINNED if event.pinned else 0
                return wire.FreeMessage(
                    gpu=event.gpu,
                    flags=pinned,
                    bytes=event.bytes,
                    resident_bytes=event.resident_bytes,
                )
            case ev.Detach():
                return wire.AmountMessage(Type.DETACH, 0, event.gpu)
            case ev.Pinned():
                return wire.PinnedMessage(reason=event.reason)
            case ev.LeaseRequest():
                return wire.LeaseNoteMessage(Type.LEASE_REQUEST)
            case ev.Busy():
                return wire.LeaseNoteMessage(Type.BUSY, 0, event.epoch)
            case ev.Idle():
                return wire.LeaseNoteMessage(Type.IDLE, 0, event.epoch)
            case ev.Restored():
                return wire.LeaseNoteMessage(Type.RESTORED, 0, self.epoch)
            case ev.Resident():
                return wire.AmountMessage(Type.RESIDENT, 0, event.gpu, event.resident_bytes)
            case ev.Drained(gpu=None):
                return wire.DrainedMessage(epoch=event.epoch)
            case ev.Drained(gpu=int(gpu)):
                return wire.DrainedMessage(
                    epoch=event.epoch, gpu=gpu, resident_bytes=event.resident_bytes
                )
            case ev.Evicted():
                flags = EvictedFlag.LAST if event.last else EvictedFlag(0)
                flags |= EvictedFlag.FAILED if event.failed else EvictedFlag(0)
                return wire.EvictedMessage(
                    gpu=event.gpu,
                    flags=int(flags),
                    bytes=event.bytes,
                    resident_bytes=event.resident_bytes,
                )
        raise AssertionError(f"no process says {event}")
