"""What a process says, turned into events; nonsense ends the conversation, not the agent."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from moiety.agent.core import executor
from moiety.agent.core.client import REQUESTS_MAX, Client
from moiety.agent.core.connection import PACKETS_A_TURN, Connection, Loop
from moiety.agent.core.lease_page import LeasePage
from moiety.agent.core.rate_limits import Tally
from moiety.agent.core.runtime import Node
from moiety.agent.shim import gang_detection
from moiety.agent.system import processes
from moiety.arbiter import events as ev
from moiety.model.errors import ProtocolError
from moiety.model.format import plain
from moiety.model.gang import Gang
from moiety.model.share import Share
from moiety.wire.codec import OtherVersion, decode
from moiety.wire.layout import (
    NO_GPU,
    UNKNOWN_MAX,
    AllocFlag,
    EvictedFlag,
    FreeFlag,
    HelloFlag,
    Refusal,
    Type,
    WelcomeFlag,
)
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    ArenaMessage,
    AttachMessage,
    DrainedMessage,
    EvictedMessage,
    FreeMessage,
    HelloMessage,
    LeaseNoteMessage,
    LimitReplyMessage,
    PinnedMessage,
    RefusedMessage,
    SharedMessage,
    ShareMessage,
    UnknownMessage,
    WelcomeMessage,
)

ALLOC_PINNED = int(AllocFlag.PINNED)
ALLOC_MANAGED = int(AllocFlag.MANAGED)
FREE_ALLOWED = int(FreeFlag.TO_CREDIT)


class Conversation:
    """One connection, from the moment it is accepted."""

    def __init__(
        self,
        node: Node,
        loop: Loop,
        sock: socket.socket,
        *,
        peer: processes.Peer,
        workload: str,
        share: Share,
        name: str | None = None,
        gang: Gang | None = None,
        owner: int | None = None,
        gpus: frozenset[bytes] = frozenset(),
        labels: dict[str, str] | None = None,
        is_admin: bool = False,
    ) -> None:
        """Listen to `peer`, who came in through the socket of `workload`, which is `owner`'s.

        `is_admin`: it may have more than one user may (Bounds).
        Whatever user a process is in its container, it counts as one of whose share it uses.
        """
        self._node = node
        self._peer = peer
        self._owner = peer.uid if owner is None else owner
        self._workload = workload
        self._share = share
        self._name = name
        self._gang = gang
        self._gpus = gpus
        self._is_admin = is_admin
        self._labels = labels or {}
        self._pidfd = node.kernel.pidfd_of(sock, peer.pid)
        self._client: Client | None = None
        self._loop = loop
        self._ends: list[Tally] = []
        """where it is to be struck off when it is over"""
        self._count(node.bounds.connections)
        self._silence: Any = loop.call_later(
            node.bounds.GREETING_S, self._hang_up, Refusal.PROTOCOL, "it did not introduce itself"
        )
        self._connection = Connection(
            loop, sock, self._on_packet, self._on_end, self._on_burst, self._over
        )

    def abandon(self) -> None:
        """Let go of what the kernel keeps for it, without a word to anybody."""
        self._connection.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _on_packet(self, packet: bytes) -> None:
        try:
            message = decode(packet)
            client = self._client
            if client is None:
                if self._silence:
                    self._silence.cancel()
                    self._silence = None
                if isinstance(message, AttachMessage) and message.type == Type.LIMIT_QUERY:
                    self._show(message)
                    return
                if not isinstance(message, HelloMessage):
                    raise ProtocolError("the first message must be a greeting")
                self._greet(message)
            else:
                says = _SAYS.get(message.type)
                if says is None:
                    raise ProtocolError(f"a process does not send {Type(message.type).name}")
                says(self._node, client, message)
        except OtherVersion as error:
            self._hang_up(Refusal.VERSION, str(error))
        except ProtocolError as error:
            self._hang_up(Refusal.PROTOCOL, str(error))
        except Exception:
            self._node.log.exception("message not understood", packet=packet[:64].hex())
            self._hang_up(Refusal.PROTOCOL, "the agent failed on this message; see its log")

    def _greet(self, hello: HelloMessage) -> None:
        """A process introduces itself: give it a number and its lease page."""
        node = self._node
        if no := node.bounds.processes.refuse(self._owner, is_admin=self._is_admin):
            self._hang_up(Refusal.FULL, no)
            return
        self._count(node.bounds.processes)
        started = node.kernel.start_time(self._peer.pid)
        if started is None:
            self._connection.close()
            self._on_end("")
            return
        resumed = bool(hello.flags & HelloFlag.RESUMED)
        holding = resumed and bool(hello.flags & HelloFlag.HOLDING)
        pinned = resumed and bool(hello.flags & HelloFlag.PINNED)
        epoch = hello.epoch if resumed else 0
        before = node.known_as(self._peer.pid, self._workload) if resumed else None
        fenced = holding and node.is_fenced(self._peer.pid, before)
        doubted = holding and not fenced and not node.may_hold(self._peer.pid, before)
        client = Client(
            number=node.number(),
            workload=self._workload,
            pid=self._peer.pid,
            started=started,
            pidfd=self._pidfd,
            program=plain(self._name or hello.program or node.kernel.name_of(self._peer.pid)),
            uid=self._owner,
            connection=self._connection,
            page=LeasePage(epoch, is_open=holding and not fenced and not doubted),
            share=self._share,
            part=self._share,
            mode=self._share.mode,
            labels=self._labels,
            may_use=self._gpus,
            resumed=resumed,
            fenced=fenced,
            pinned="before the agent started" if pinned else "",
            talks=bool(hello.flags & HelloFlag.TALKS),
        )
        self._client = client
        self._pidfd = -1
        prepares = node.arena is not None and node.arena.prepares
        welcome = WelcomeMessage(
            serial=hello.serial,
            tenant=client.number,
            epoch=epoch,
            mode=executor.MODES[self._share.mode],
            flags=int(WelcomeFlag.ARENA) if prepares else 0,
        )
        self._connection.send(welcome.encode(), client.page.fd)
        node.log.info(
            "joined", client=str(client), uid=client.uid, tenant=client.number, resumed=resumed
        )
        name = client.anonymous if node.shared else str(client)
        joined = ev.Hello(
            client.number,
            holding,
            epoch,
            pinned,
            resumed,
            self._share,
            name,
            self._owner,
            fenced=fenced,
            doubted=doubted,
        )
        node.join(client, joined)
        node.journal.note("Joined", "again, after the agent changed" if resumed else "", client)
        if self._gang is not None:
            gang_detection.enter(node, client, self._gang, begun=holding)

    def _show(self, message: AttachMessage) -> None:
        """A monitoring tool asks what its workload has, and goes."""
        node = self._node
        gpu = node.by_uuid.get(message.uuid)
        if gpu is None:
            text = "this agent does not manage that GPU"
            answer = RefusedMessage(serial=message.serial, code=Refusal.GPU, text=text).encode()
        else:
            capacity = node.gpus[gpu].budget.capacity_bytes
            answer = LimitReplyMessage(
                serial=message.serial,
                gpu=gpu,
                limit_bytes=min(self._share.memory_limit_bytes or capacity, capacity),
                used_bytes=sum(
                    view.gpus[gpu].allocated_bytes
                    for view in node.arbiter.tenants()
                    if gpu in view.gpus
                    and view.tenant in node.clients
                    and node.clients[view.tenant].workload == self._workload
                ),
            ).encode()
        self._connection.send_last(answer)
        self._on_end("")

    def _count(self, tally: Tally) -> None:
        tally.take(self._owner)
        self._ends.append(tally)

    def _over(self) -> None:
        """The connection is closed, by whoever."""
        if self._silence:
            self._silence.cancel()
            self._silence = None
        while self._ends:
            self._ends.pop().give(self._owner)

    def _on_burst(self) -> float:
        """It sends faster than it is read: others come first for a while."""
        now_s = self._loop.time()
        turns = self._node.bounds.turns
        wait_s = turns.spend(self._owner, now_s)
        if turns.is_flooding(self._owner, now_s):
            most = round(turns.per_s * PACKETS_A_TURN)
            self._hang_up(
                Refusal.FULL, f"it sends more than {most} messages a second, and does not stop"
            )
        return wait_s

    def _hang_up(self, code: Refusal, text: str) -> None:
        who = str(self._client) if self._client else f"pid {self._peer.pid}"
        self._node.log.warning("hung up", client=who, code=code.name.lower(), text=text)
        peer = self._peer
        self._node.journal.often(
            f"user {self._owner}",
            "BadMessage",
            f"{who}: {text}",
            self._client,
            pid=peer.pid,
            uid=peer.uid,
        )
        self._connection.send_last(RefusedMessage(code=code, text=text).encode())
        self._on_end("")

    def _on_end(self, reason: str) -> None:
        self.abandon()
        if self._client is not None:
            self._node.disconnected(self._client, reason)


# What each message means


def _lookup(node: Node, client: Client, message: AttachMessage) -> None:
    gpu = _gpu_of(node, client, message)
    if gpu is not None:
        executor.attach(node, client, message.serial, gpu)


def _gpu_of(node: Node, client: Client, message: AttachMessage) -> int | None:
    gpu = node.by_uuid.get(message.uuid)
    if gpu is None:
        text = "this agent does not manage that GPU; see moiety status"
        refused = RefusedMessage(serial=message.serial, code=Refusal.GPU, text=text)
        client.connection.send(refused.encode())
    elif why := node.lost.get(gpu) or _not_its(client, message.uuid, gpu):
        refused = RefusedMessage(serial=message.serial, code=Refusal.GPU, text=why)
        client.connection.send(refused.encode())
        return None
    return gpu


def _not_its(client: Client, uuid: bytes, gpu: int) -> str:
    """Why this GPU is not one of its share's; empty: it is."""
    if not client.may_use or uuid in client.may_use or gpu in client.unspoken:
        return ""
    return f"its share is not of GPU {gpu}"


def _attach(node: Node, client: Client, message: AttachMessage) -> None:
    gpu = _gpu_of(node, client, message)
    if gpu is None:
        return
    if gpu in client.attaching.values():
        raise ProtocolError(f"GPU {gpu} is being attached already")
    exists = message.allocated_bytes > 0 or not message.serial
    if exists and not client.resumed:
        raise ProtocolError("a new process cannot have a context already")
    if gpu in client.gpus:
        executor.attach(node, client, message.serial, gpu)
        return
    if message.serial:
        _may_ask(client, message.serial)
        client.attaching[message.serial] = gpu
    client.unspoken.discard(gpu)
    client.gpus.add(gpu)
    if client.talks:
        node.notices.may_wait()
    node.gpus_changed(client)
    node.feed(
        ev.Attach(
            client.number,
            gpu,
            message.serial,
            residue_bytes=node.gpus[gpu].residue_bytes,
            limit_bytes=node.limit_bytes(client, gpu),
            allocated_bytes=message.allocated_bytes,
            resident_bytes=message.resident_bytes,
            pinned_bytes=message.pinned_bytes,
            managed_bytes=message.managed_bytes,
            exists=exists,
        )
    )
    node.came_back(client.pid, client.gpus)


def _context(node: Node, client: Client, message: AmountMessage) -> None:
    _know(client, message.gpu)
    node.measure(client, message.gpu, message.bytes)


def _detach(node: Node, client: Client, message: AmountMessage) -> None:
    _know(client, message.gpu)
    client.gpus.discard(message.gpu)
    for waiting in (client.attaching, client.allocating):
        for serial in [s for s, gpu in waiting.items() if gpu == message.gpu]:
            del waiting[serial]
    node.feed(ev.Detach(client.number, message.gpu))
    node.timeline.left(client.number, message.gpu)
    node.gpus_changed(client)


def _alloc(node: Node, client: Client, message: AllocMessage) -> None:
    _know(client, message.gpu)
    _may_ask(client, message.serial)
    client.allocating[message.serial] = message.gpu
    if client.talks:
        node.notices.may_wait()
    node.feed(
        ev.AllocRequest(
            client.number,
            message.gpu,
            message.serial,
            message.bytes,
            bool(message.flags & ALLOC_PINNED),
            bool(message.flags & ALLOC_MANAGED),
        )
    )
    if message.serial in client.allocating and client.page.is_open:
        node.timeline.growing(client.number, message.gpu)


def _need(node: Node, client: Client, message: AllocMessage) -> None:
    _know(client, message.gpu)
    _may_ask(client, message.serial)
    client.allocating[message.serial] = message.gpu
    node.need(client, message.gpu, message.serial, message.bytes)


def _free(node: Node, client: Client, message: FreeMessage) -> None:
    _know(client, message.gpu)
    node.feed(
        ev.Free(
            client.number,
            message.gpu,
            message.bytes,
            message.resident_bytes,
            bool(message.flags & ALLOC_PINNED),
            bool(message.flags & ALLOC_MANAGED),
            bool(message.flags & FREE_ALLOWED),
        )
    )
    node.sample(client, message.gpu)


def _taken(node: Node, client: Client, message: FreeMessage) -> None:
    _know(client, message.gpu)
    node.feed(ev.CreditUsed(client.number, message.gpu, message.bytes, message.resident_bytes))
    node.sample(client, message.gpu)


def _returned(node: Node, client: Client, message: AmountMessage) -> None:
    _know(client, message.gpu)
    node.feed(ev.CreditReturned(client.number, message.gpu, message.bytes))


def _keep(node: Node, client: Client, message: AmountMessage) -> None:
    _know(client, message.gpu)
    node.feed(ev.PinBytes(client.number, message.gpu, message.bytes))


def _export(node: Node, client: Client, message: ShareMessage) -> None:
    node.exports.exported(client, message)


def _import(node: Node, client: Client, message: ShareMessage) -> None:
    node.exports.wanted(client, message)


def _unshare(node: Node, client: Client, message: ShareMessage) -> None:
    node.exports.ended(client, message)


def _want(node: Node, client: Client, message: LeaseNoteMessage) -> None:
    del message
    node.feed(ev.LeaseRequest(client.number))
    if client.talks:
        node.notices.may_wait()


def _restored(node: Node, client: Client, message: LeaseNoteMessage) -> None:
    del message
    node.timeline.worked(client.number, client.work)
    node.feed(ev.Restored(client.number))


def _resident(node: Node, client: Client, message: AmountMessage) -> None:
    _know(client, message.gpu)
    node.feed(ev.Resident(client.number, message.gpu, message.bytes))
    node.sample(client, message.gpu)


def _drained(node: Node, client: Client, message: DrainedMessage) -> None:
    node.timeline.worked(client.number, client.work)
    if message.gpu == NO_GPU:
        node.feed(ev.Drained(client.number, message.epoch))
    else:
        _know(client, message.gpu)
        node.feed(ev.Drained(client.number, message.epoch, message.gpu, message.resident_bytes))
        node.sample(client, message.gpu)
    if client.fenced and message.epoch == client.page.epoch:
        executor.fence(node, client, fenced=False)


def _evicted(node: Node, client: Client, message: EvictedMessage) -> None:
    _know(client, message.gpu)
    is_last = bool(message.flags & EvictedFlag.LAST)
    is_failed = bool(message.flags & EvictedFlag.FAILED)
    node.feed(
        ev.Evicted(
            client.number,
            message.gpu,
            message.bytes,
            message.resident_bytes,
            last=is_last,
            failed=is_failed,
        )
    )
    if is_last:
        node.timeline.worked(client.number, client.work)
    told = client.number, message.gpu, message.bytes
    is_over = node.timeline.evicted(*told, is_last, is_failed)
    node.journal.evicted(client, message.gpu, message.bytes, is_over=is_over)
    node.sample(client, message.gpu)


def _idle(node: Node, client: Client, message: LeaseNoteMessage) -> None:
    node.feed(ev.Idle(client.number, message.epoch))


def _busy(node: Node, client: Client, message: LeaseNoteMessage) -> None:
    node.feed(ev.Busy(client.number, message.epoch))


def _pinned(node: Node, client: Client, message: PinnedMessage) -> None:
    client.pinned = message.reason or "unknown"
    node.log.info("pinned", client=str(client), call=message.reason)
    node.journal.note("Pinned", f"it called {client.pinned}", client)
    node.feed(ev.Pinned(client.number, message.reason))


def _shared(node: Node, client: Client, message: SharedMessage) -> None:
    gang_detection.shares(node, client, message.flags)


def _unknown(node: Node, client: Client, message: UnknownMessage) -> None:
    if message.name not in client.unknown:
        if len(client.unknown) >= UNKNOWN_MAX:
            return
        node.log.info("unknown entry point", client=str(client), call=message.name)
        node.journal.note("UnknownCall", f"it called {message.name}", client)
    client.unknown[message.name] = message.calls


def _arena(node: Node, client: Client, message: ArenaMessage) -> None:
    if not client.resumed:
        raise ProtocolError("a new process cannot have a segment already")
    if node.arena:
        node.arena.adopt(client, message.segment, message.bytes)


def _arena_back(node: Node, client: Client, message: ArenaMessage) -> None:
    if node.arena:
        node.arena.back(client, message.segment)


def _arena_need(node: Node, client: Client, message: ArenaMessage) -> None:
    if node.arena:
        node.arena.need(client, message.bytes)


def _know(client: Client, gpu: int) -> None:
    if gpu not in client.gpus:
        raise ProtocolError(f"GPU {gpu} is not attached")


def _may_ask(client: Client, serial: int) -> None:
    if serial in client.attaching or serial in client.allocating:
        raise ProtocolError(f"request {serial} is not answered yet")
    if len(client.attaching) + len(client.allocating) >= REQUESTS_MAX:
        raise ProtocolError(f"more than {REQUESTS_MAX} requests wait for an answer")


_SAYS: dict[int, Callable[[Node, Client, Any], None]] = {
    int(Type.LIMIT_QUERY): _lookup,
    int(Type.ATTACH): _attach,
    int(Type.CONTEXT): _context,
    int(Type.DETACH): _detach,
    int(Type.ALLOC_REQUEST): _alloc,
    int(Type.DRIVER_OOM): _need,
    int(Type.FREE): _free,
    int(Type.CREDIT_USED): _taken,
    int(Type.CREDIT_RETURNED): _returned,
    int(Type.PIN_BYTES): _keep,
    int(Type.EXPORT): _export,
    int(Type.IMPORT): _import,
    int(Type.UNSHARE): _unshare,
    int(Type.LEASE_REQUEST): _want,
    int(Type.RESTORED): _restored,
    int(Type.RESIDENT): _resident,
    int(Type.DRAINED): _drained,
    int(Type.EVICTED): _evicted,
    int(Type.IDLE): _idle,
    int(Type.BUSY): _busy,
    int(Type.PINNED): _pinned,
    int(Type.SHARED): _shared,
    int(Type.UNKNOWN): _unknown,
    int(Type.ARENA): _arena,
    int(Type.ARENA_BACK): _arena_back,
    int(Type.ARENA_NEED): _arena_need,
}
