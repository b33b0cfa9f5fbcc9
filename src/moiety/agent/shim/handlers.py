"""What each message of a process means: one handler for each type, dispatched by one table.

The handler of `ALLOC_REQUEST` is `on_alloc_request`. A message that makes no sense raises
ProtocolError, which ends the session and not the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moiety.agent.arena.arena import Arena
from moiety.agent.core.client import Client
from moiety.agent.core.clients import Clients
from moiety.agent.core.executor import Executor
from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import Gpus, index_of
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.shim.checks import must_be_attached, must_be_new, not_in_share, pinned_gpu
from moiety.agent.shim.gang_detection import GangDetection
from moiety.agent.shim.ipc_broker import IpcBroker
from moiety.agent.shim.wait_messages import WaitMessages
from moiety.arbiter import events as ev
from moiety.model.errors import ProtocolError
from moiety.model.format import plain
from moiety.wire.layout import NO_GPU, UNKNOWN_MAX, AllocFlag, EvictedFlag, FreeFlag, Refusal, Type
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    ArenaMessage,
    AttachMessage,
    ContentMessage,
    DrainedMessage,
    EvictedMessage,
    FreeMessage,
    LeaseNoteMessage,
    PinMessage,
    PinnedMessage,
    RefusedMessage,
    SharedMessage,
    ShareMessage,
    UnknownMessage,
)

ALLOC_PINNED: Final = int(AllocFlag.PINNED)
ALLOC_MANAGED: Final = int(AllocFlag.MANAGED)
FREE_ALLOWED: Final = int(FreeFlag.TO_CREDIT)


class Handlers:
    """Turns messages of processes that have introduced themselves into events."""

    def __init__(
        self,
        runtime: Runtime,
        clients: Clients,
        *,
        executor: Executor,
        probe: GpuProbe,
        gpus: Gpus,
        timeline: Timeline,
        journal: Journal,
        ipc: IpcBroker,
        gangs: GangDetection,
        wait_messages: WaitMessages,
    ) -> None:
        self.clients = clients.by_number
        self.arena: Arena | None = None
        """Host memory that is prepared, if there is any."""
        self._runtime = runtime
        self._registry = clients
        self._executor = executor
        self._probe = probe
        self._gpus = gpus
        self._timeline = timeline
        self._journal = journal
        self._ipc = ipc
        self._gangs = gangs
        self._wait_messages = wait_messages

    def handle(self, client: Client, message: Any) -> None:
        """Take in one message; raises ProtocolError."""
        handler = HANDLERS.get(message.type)
        if handler is None:
            raise ProtocolError(f"a process does not send {Type(message.type).name}")
        handler(self, client, message)

    # GPUs

    def on_limit_query(self, client: Client, message: AttachMessage) -> None:
        """A process asks what it may allocate."""
        gpu = self._gpu_of(client, message)
        if gpu is not None:
            self._executor.attach(client, message.serial, gpu)

    def on_attach(self, client: Client, message: AttachMessage) -> None:
        """A process is about to create a context, or (resumed) has one."""
        gpu = self._gpu_of(client, message)
        if gpu is None:
            return
        if gpu in client.attaching.values():
            raise ProtocolError(f"GPU {gpu} is being attached already")
        exists = message.allocated_bytes > 0 or not message.serial
        if exists and not client.resumed:
            raise ProtocolError("a new process cannot have a context already")
        if gpu in client.gpus:
            self._executor.attach(client, message.serial, gpu)
            return
        if message.serial:
            must_be_new(client, message.serial)
            client.attaching[message.serial] = gpu
        client.unspoken.discard(gpu)
        client.gpus.add(gpu)
        client.peaks.setdefault(gpu, 0)
        if client.talks:
            self._wait_messages.may_wait()
        self._registry.gpus_changed(client)
        proven = self._registry.proofs.take(client, gpu) or (None, None)
        self._runtime.feed(
            ev.Attach(
                client.number,
                gpu,
                message.serial,
                residue_bytes=self._gpus[gpu].expected_residue_bytes(client.uid),
                limit_bytes=self._gpus[gpu].limit_bytes(client.share),
                allocated_bytes=message.allocated_bytes,
                resident_bytes=message.resident_bytes,
                pinned_bytes=message.pinned_bytes,
                managed_bytes=message.managed_bytes,
                exists=exists,
                too_many=self._probe.announce(client, gpu, exists=exists),
                proven_bytes=proven[0],
                proven_pinned_bytes=proven[1],
            )
        )
        self._registry.attached(client)

    def _gpu_of(self, client: Client, message: AttachMessage) -> int | None:
        """Return the GPU that a message names; None if the process may not use it."""
        gpu = index_of(self._gpus, message.uuid)
        if gpu is None:
            why = "this agent does not manage that GPU; see moiety status"
        else:
            why = self._gpus[gpu].lost or not_in_share(client, message.uuid, gpu)
        if not why:
            return gpu
        refused = RefusedMessage(serial=message.serial, code=Refusal.GPU, text=why)
        client.connection.send(refused.encode())
        return None

    def on_context(self, client: Client, message: AmountMessage) -> None:
        """A process has created a context."""
        must_be_attached(client, message.gpu)
        self._probe.measure(client, message.gpu, message.bytes)

    def on_detach(self, client: Client, message: AmountMessage) -> None:
        """A process has no context on a GPU any more."""
        must_be_attached(client, message.gpu)
        client.gpus.discard(message.gpu)
        self._gpus[message.gpu].end_announcement(client.number)
        for waiting in (client.attaching, client.allocating):
            for serial in [s for s, gpu in waiting.items() if gpu == message.gpu]:
                del waiting[serial]
        for serial in [s for s, asked in client.pinning.items() if asked.gpu == message.gpu]:
            del client.pinning[serial]
        self._runtime.feed(ev.Detach(client.number, message.gpu))
        self._timeline.left(client.number, message.gpu)
        self._registry.gpus_changed(client)

    # Memory

    def on_alloc_request(self, client: Client, message: AllocMessage) -> None:
        """A process wants to allocate."""
        must_be_attached(client, message.gpu)
        must_be_new(client, message.serial)
        client.allocating[message.serial] = message.gpu
        if client.talks:
            self._wait_messages.may_wait()
        self._runtime.feed(
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
            self._timeline.growing(client.number, message.gpu)

    def on_driver_oom(self, client: Client, message: AllocMessage) -> None:
        """A process' driver ran out of memory that moiety had admitted."""
        must_be_attached(client, message.gpu)
        must_be_new(client, message.serial)
        client.allocating[message.serial] = message.gpu
        self._probe.driver_oom(client, message.gpu, message.serial, message.bytes)

    def on_free(self, client: Client, message: FreeMessage) -> None:
        """A process has freed memory."""
        must_be_attached(client, message.gpu)
        if message.flags & FREE_ALLOWED:
            self._registry.check_refill(client, message.gpu, message.bytes)
        if message.flags & FreeFlag.DAMAGED:
            self._executor.damaged(client, message.gpu, message.bytes)
        self._runtime.feed(
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
        self._registry.sample(client, message.gpu)

    def on_credit_used(self, client: Client, message: FreeMessage) -> None:
        """A process has allocated from its credit."""
        must_be_attached(client, message.gpu)
        self._registry.check_credit(client, message.gpu, message.bytes)
        used = ev.CreditUsed(client.number, message.gpu, message.bytes, message.resident_bytes)
        self._runtime.feed(used)
        self._registry.sample(client, message.gpu)

    def on_credit_returned(self, client: Client, message: AmountMessage) -> None:
        """A process has given its credit back."""
        must_be_attached(client, message.gpu)
        self._runtime.feed(ev.CreditReturned(client.number, message.gpu, message.bytes))

    def on_pin_request(self, client: Client, message: PinMessage) -> None:
        """A process wants memory to stay on the GPU."""
        if message.gpu != NO_GPU:
            must_be_attached(client, message.gpu)
        must_be_new(client, message.serial)
        client.pinning[message.serial] = message
        call = plain(message.call) or "unknown"
        asked = client.number, pinned_gpu(message.gpu), message.serial, message.bytes, call
        self._runtime.feed(ev.PinRequest(*asked))

    def on_unpin(self, client: Client, message: AmountMessage) -> None:
        """Some of a process' memory can leave the GPU again."""
        if message.gpu == NO_GPU:
            client.pinned = ""
        else:
            must_be_attached(client, message.gpu)
        self._runtime.feed(ev.Unpin(client.number, pinned_gpu(message.gpu), message.bytes))

    def on_resident(self, client: Client, message: AmountMessage) -> None:
        """A process says how much of its data is on a GPU."""
        must_be_attached(client, message.gpu)
        self._runtime.feed(ev.Resident(client.number, message.gpu, message.bytes))
        self._registry.sample(client, message.gpu)

    def on_content_reply(self, client: Client, message: ContentMessage) -> None:
        """A process says what of its data on a GPU is zeros, and what is in host memory."""
        must_be_attached(client, message.gpu)
        content = message.gpu, message.zero_bytes, message.host_bytes
        self._runtime.feed(ev.ContentReply(client.number, *content))

    def on_pinned(self, client: Client, message: PinnedMessage) -> None:
        """A process made a call after which none of its memory can leave."""
        call = plain(message.reason) or "unknown"
        self._executor.pinned(client, None, 0, call)
        self._runtime.feed(ev.Pinned(client.number, call))

    # Leases

    def on_lease_request(self, client: Client, _: LeaseNoteMessage) -> None:
        """A process waits at its closed gate."""
        self._runtime.feed(ev.LeaseRequest(client.number))
        if client.talks:
            self._wait_messages.may_wait()

    def on_restored(self, client: Client, _: LeaseNoteMessage) -> None:
        """A process has restored what it was given room for."""
        self._timeline.worked(client.number, client.work)
        self._runtime.feed(ev.Restored(client.number))

    def on_drained(self, client: Client, message: DrainedMessage) -> None:
        """A process' work has ended on one GPU, or on all of them."""
        self._timeline.worked(client.number, client.work)
        if message.gpu == NO_GPU:
            self._runtime.feed(ev.Drained(client.number, message.epoch))
        else:
            must_be_attached(client, message.gpu)
            self._runtime.feed(
                ev.Drained(client.number, message.epoch, message.gpu, message.resident_bytes)
            )
            self._registry.sample(client, message.gpu)
        if client.fenced and message.epoch == client.page.epoch:
            self._executor.fence(client, fenced=False)

    def on_evicted(self, client: Client, message: EvictedMessage) -> None:
        """A process has moved memory to the host."""
        must_be_attached(client, message.gpu)
        is_last = bool(message.flags & EvictedFlag.LAST)
        is_failed = bool(message.flags & EvictedFlag.FAILED)
        self._runtime.feed(
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
            self._timeline.worked(client.number, client.work)
        told = client.number, message.gpu, message.bytes
        is_over = self._timeline.evicted(*told, is_last, is_failed)
        self._journal.evicted(client, message.gpu, message.bytes, is_over=is_over)
        self._registry.sample(client, message.gpu)

    def on_idle(self, client: Client, message: LeaseNoteMessage) -> None:
        """A holder has submitted nothing for its idle timeout."""
        self._runtime.feed(ev.Idle(client.number, message.epoch))

    def on_busy(self, client: Client, message: LeaseNoteMessage) -> None:
        """A holder that was idle submits again."""
        self._runtime.feed(ev.Busy(client.number, message.epoch))

    # Memory and work of several processes

    def on_export(self, client: Client, message: ShareMessage) -> None:
        """A process exports memory."""
        self._ipc.exported(client, message)

    def on_import(self, client: Client, message: ShareMessage) -> None:
        """A process opens memory of another, or sends pieces of its own."""
        self._ipc.wanted(client, message)

    def on_unshare(self, client: Client, message: ShareMessage) -> None:
        """A process has closed memory of another, or takes back its own."""
        self._ipc.ended(client, message)

    def on_shared(self, client: Client, message: SharedMessage) -> None:
        """A process has exported or imported memory that moiety does not track."""
        self._gangs.shared(client, message.flags)

    def on_unknown(self, client: Client, message: UnknownMessage) -> None:
        """A process has used an entry point that moiety does not know."""
        name = plain(message.name)
        if name not in client.unknown:
            if len(client.unknown) >= UNKNOWN_MAX:
                return
            self._runtime.log.info("unknown", client=str(client), call=name)
            self._journal.note("UnknownCall", f"it called {name}", client)
        client.unknown[name] = message.calls

    # Host memory

    def on_arena(self, client: Client, message: ArenaMessage) -> None:
        """A process that resumed says which segment it has, of this agent or of the last."""
        if not client.resumed:
            raise ProtocolError("a new process cannot have a segment already")
        if self.arena:
            self.arena.adopt(client, message.segment, message.bytes)

    def on_arena_back(self, client: Client, message: ArenaMessage) -> None:
        """A process has unmapped a segment."""
        if self.arena:
            self.arena.back(client, message.segment)

    def on_arena_need(self, client: Client, message: ArenaMessage) -> None:
        """A process waits for segments."""
        if self.arena:
            self.arena.need(client, message.bytes)


Handler = Callable[[Handlers, Client, Any], None]
HANDLERS: Final[dict[int, Handler]] = {
    int(kind): getattr(Handlers, f"on_{kind.name.lower()}")
    for kind in Type
    if hasattr(Handlers, f"on_{kind.name.lower()}")
}
"""By type; a process sends no other."""
