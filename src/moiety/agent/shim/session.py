"""One process' session with the agent: its greeting, its messages, its end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from moiety.agent.core.client import Client
from moiety.agent.core.clients import Clients
from moiety.agent.core.connection import Connection, ReaderThread
from moiety.agent.core.executor import MODES
from moiety.agent.core.gpus import Gpus, index_of
from moiety.agent.core.journal import Journal
from moiety.agent.core.lease_page import LeasePage
from moiety.agent.core.rate_limits import Flood, RateLimits, UserQuota
from moiety.agent.core.read_turns import PACKETS_A_TURN, ReadTurns
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.time_owners import owner_of
from moiety.agent.shim.gang_detection import GangDetection
from moiety.agent.shim.handlers import Handlers
from moiety.agent.system import processes
from moiety.agent.system.event_loop import EventLoop, Timer
from moiety.agent.system.kernel import Kernel
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.state.tenant import EPOCHS
from moiety.devices.interface import uuid_bytes
from moiety.model.errors import ProtocolError
from moiety.model.format import plain
from moiety.model.gang import Gang
from moiety.model.share import Share
from moiety.wire.codec import OtherVersion, decode
from moiety.wire.layout import (
    GPUS_MAX,
    HelloFlag,
    Refusal,
    Type,
    WelcomeFlag,
)
from moiety.wire.messages import (
    AttachMessage,
    GpusMessage,
    GpusQueryMessage,
    HelloMessage,
    LimitReplyMessage,
    RefusedMessage,
    WelcomeMessage,
)


@dataclass(slots=True)
class SessionContext:
    """The components that the sessions of one agent use."""

    runtime: Runtime
    loop: EventLoop
    clients: Clients
    handlers: Handlers
    gangs: GangDetection
    gpus: Gpus
    arbiter: Arbiter
    journal: Journal
    kernel: Kernel
    limits: RateLimits
    reads: ReadTurns
    shared: bool
    """Programs of several users are here, who must not learn each other's names."""
    thread: ReaderThread | None = None
    """What reads connections that have greeted; None: the loop does."""


def gpus_message(serial: int, cards: tuple[str, ...]) -> GpusMessage:
    """These GPUs' UUIDs as a message; a program sees GPUS_MAX of them at most."""
    seen = cards[:GPUS_MAX]
    return GpusMessage(
        serial=serial,
        count=len(seen),
        mig=sum(card.startswith("MIG-") << i for i, card in enumerate(seen)),
        uuids=b"".join(map(uuid_bytes, seen)),
    )


class Session:
    """One connection, from the moment it is accepted."""

    def __init__(
        self,
        context: SessionContext,
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
        cards: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """Listen to `peer`, which connected to the socket of `workload`, which belongs to `owner`.

        `is_admin`: it may have more than one user may (RateLimits). Whichever user a process is in
        its container, it counts as a process of `owner`. `cards` settles which GPUs the workload's
        programs see, and returns their UUIDs (empty: all). Raises OSError if it is dead.
        """
        self._context = context
        self._limits = context.limits
        self._runtime = context.runtime
        self._peer = peer
        self._owner = peer.uid if owner is None else owner
        self._workload = workload
        self._share = share
        self._name = name
        self._gang = gang
        self._gpus = gpus
        self._is_admin = is_admin
        self._cards = cards
        self._labels = labels or {}
        self._pidfd = context.kernel.pidfd_of(sock, peer.pid)
        self._client: Client | None = None
        self._flood = Flood()
        self._quotas: list[UserQuota] = []
        """Quotas that count this session until it is over."""
        self._count(self._limits.connections)
        self._greeting: Timer | None = context.loop.call_later(
            self._limits.GREETING_S,
            self._hang_up,
            Refusal.PROTOCOL,
            "it did not introduce itself",
        )
        self._connection = Connection(
            context.loop,
            sock,
            self._on_packet,
            self._on_end,
            self._on_burst,
            self._on_close,
            context.reads.of(self._limits.account_of(self._owner)),
        )

    def abandon(self) -> None:
        """Release what the kernel keeps for it, without a word to the process."""
        self._connection.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _on_packet(self, packet: bytes) -> None:
        try:
            message = decode(packet)
            client = self._client
            if client is not None:
                self._context.handlers.handle(client, message)
                return
            if self._greeting:
                self._greeting.cancel()
                self._greeting = None
            if isinstance(message, AttachMessage) and message.type == Type.LIMIT_QUERY:
                self._on_limit_query(message)
            elif isinstance(message, GpusQueryMessage):
                self.on_gpus_query(message)
            elif isinstance(message, HelloMessage):
                self.on_hello(message)
            else:
                raise ProtocolError("the first message must be a greeting")
        except OtherVersion as error:
            self._hang_up(Refusal.VERSION, str(error))
        except ProtocolError as error:
            self._hang_up(Refusal.PROTOCOL, str(error))
        except Exception:
            self._runtime.log.exception("message_invalid", packet=packet[:64].hex())
            self._hang_up(Refusal.PROTOCOL, "the agent failed on this message; see its log")

    def on_hello(self, hello: HelloMessage) -> None:
        """A process introduces itself: give it a number and its lease page."""
        context, clients = self._context, self._context.clients
        if no := self._limits.processes.refuse(self._owner, is_admin=self._is_admin):
            self._hang_up(Refusal.FULL, no)
            return
        self._count(self._limits.processes)
        started = context.kernel.start_time(self._peer.pid)
        if started is None:
            self._connection.close()
            self._on_end("")
            return
        resumed = bool(hello.flags & HelloFlag.RESUMED)
        holding = resumed and bool(hello.flags & HelloFlag.HOLDING)
        pinned = resumed and bool(hello.flags & HelloFlag.PINNED)
        epoch = hello.epoch % EPOCHS if resumed else 0
        before = clients.known_as(self._peer.pid, started, self._workload) if resumed else None
        fenced = holding and clients.is_fenced(self._peer.pid, before)
        doubted = holding and not fenced and not clients.may_hold(self._peer.pid, before)
        program = self._name or hello.program or context.kernel.name_of(self._peer.pid)
        client = Client(
            number=clients.next_number(),
            workload=self._workload,
            pid=self._peer.pid,
            started=started,
            pidfd=self._pidfd,
            program=plain(program),
            uid=self._owner,
            account=self._limits.account_of(self._owner),
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
        self._welcome(hello, client, epoch)
        self._runtime.log.info(
            "hello", client=str(client), uid=client.uid, tenant=client.number, resumed=resumed
        )
        name = client.anonymous if context.shared else str(client)
        joined = ev.Hello(
            client.number,
            holding,
            epoch,
            pinned,
            resumed,
            self._share,
            name,
            client.account,
            fenced=fenced,
            doubted=doubted,
            unproven=resumed and not clients.is_recorded(self._peer.pid),
            owner=owner_of(client.account, client.labels),
            workload=client.workload,
        )
        clients.join(client, joined)
        text = "again, after the agent changed" if resumed else ""
        context.journal.lives("Joined", text, client)
        if self._gang is not None:
            context.gangs.join(client, self._gang, begun=holding)
        if context.thread is not None:
            self._connection.hand_over(context.thread, client.account)

    def _welcome(self, hello: HelloMessage, client: Client, epoch: int) -> None:
        arena = self._context.handlers.arena
        flags = WelcomeFlag.ARENA if arena is not None and arena.prepares else 0
        flags |= WelcomeFlag.ZERO_FILL if self._context.arbiter.is_overcommitted else 0
        welcome = WelcomeMessage(
            serial=hello.serial,
            version=hello.version,
            tenant=client.number,
            epoch=epoch,
            mode=MODES[self._share.mode],
            flags=int(flags),
        )
        self._connection.send(welcome.encode(), client.page.fd)

    def _on_limit_query(self, message: AttachMessage) -> None:
        """Answer a monitoring tool that asks for its workload's limit and use, and hang up."""
        context = self._context
        gpu = index_of(context.gpus, message.uuid)
        if gpu is None:
            text = "this agent does not manage that GPU"
            answer = RefusedMessage(serial=message.serial, code=Refusal.GPU, text=text).encode()
        else:
            known = context.clients.by_number
            capacity = context.gpus[gpu].budget.capacity_bytes
            answer = LimitReplyMessage(
                serial=message.serial,
                gpu=gpu,
                limit_bytes=self._share.limit_bytes(capacity),
                used_bytes=sum(
                    view.gpus[gpu].allocated_bytes
                    for view in context.arbiter.tenants()
                    if gpu in view.gpus
                    and view.tenant in known
                    and known[view.tenant].workload == self._workload
                ),
            ).encode()
        self._connection.send_last(answer)
        self._on_end("")

    def on_gpus_query(self, message: GpusQueryMessage) -> None:
        """Answer a program that is about to read its GPUs, and hang up."""
        self._connection.send_last(gpus_message(message.serial, self._cards()).encode())
        self._on_end("")

    def _count(self, quota: UserQuota) -> None:
        quota.take(self._owner)
        self._quotas.append(quota)

    def _on_close(self) -> None:
        """The connection is closed, by either side."""
        if self._greeting:
            self._greeting.cancel()
            self._greeting = None
        while self._quotas:
            self._quotas.pop().give(self._owner)

    def _on_burst(self) -> float:
        """The process sends faster than the agent reads: return the seconds that it must wait."""
        now_s = self._runtime.now()
        turns = self._limits.turns
        wait_s = turns.spend(self._owner, now_s)
        if self._flood.waits(wait_s, now_s):
            most = round(turns.per_s * PACKETS_A_TURN)
            self._hang_up(
                Refusal.FULL, f"it sends more than {most} messages a second, and does not stop"
            )
        return wait_s

    def _hang_up(self, code: Refusal, text: str) -> None:
        who = str(self._client) if self._client else f"pid {self._peer.pid}"
        self._runtime.log.warning(
            "connection_closed", client=who, code=code.name.lower(), text=text
        )
        self._context.journal.often(
            f"user {self._owner}",
            "BadMessage",
            f"{who}: {text}",
            self._client,
            pid=self._peer.pid,
            uid=self._peer.uid,
        )
        self._connection.send_last(RefusedMessage(code=code, text=text).encode())
        self._on_end("")

    def _on_end(self, reason: str) -> None:
        self.abandon()
        if self._client is not None:
            self._context.clients.disconnected(self._client, reason)
