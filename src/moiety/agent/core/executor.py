"""The arbiter's instructions, carried out: lease words are written and packets sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moiety.agent.core.client import Client
from moiety.agent.core.clients import Clients
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import LiveSettings, Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.system.kernel import Kernel
from moiety.arbiter import instructions as do
from moiety.arbiter.events import EVERY_GPU
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import OverduePolicy
from moiety.arbiter.states import WITH_LEASE
from moiety.model.format import format_bytes, format_duration, plain
from moiety.model.share import Mode
from moiety.wire.codec import lease_note
from moiety.wire.layout import UNKNOWN_MAX, MemoryMode, Refusal, Type
from moiety.wire.messages import (
    AmountMessage,
    AttachedMessage,
    CreditMessage,
    IdleTimeoutMessage,
    ModeMessage,
    QueueDepthMessage,
    RefusedMessage,
    WarningMessage,
)

MODES: Final = {Mode.SWAP: MemoryMode.SWAP, Mode.MANAGED: MemoryMode.MANAGED}
WHEN_FULL: Final = "[memory] when-full = kill"
LAST_WORDS_S: Final = 0.5
"""Seconds in which a process that is about to be killed prints why."""
CODES: Final = {"limit": Refusal.LIMIT, "capacity": Refusal.CAPACITY, "gpu": Refusal.GPU}


class Executor:
    """Carries out instructions for registered processes.

    `on_restoring(client, gpu, bytes)` is called when an interactive program gets room to restore,
    `on_grown(client)` when a process is told that it has the memory that it asked for, and
    `on_suspended(client, instruction)` when all that can leave of a suspended one has left.
    """

    def __init__(
        self,
        runtime: Runtime,
        clients: Clients,
        *,
        arbiter: Arbiter,
        gpus: Gpus,
        kernel: Kernel,
        settings: LiveSettings,
        timeline: Timeline,
        journal: Journal,
    ) -> None:
        self.clients: Mapping[int, Client] = clients.by_number
        self.on_restoring: list[Callable[[Client, int, int], None]] = []
        self.on_grown: list[Callable[[Client], None]] = []
        self.on_suspended: list[Callable[[Client, do.Suspended], None]] = []
        self._registry = clients
        self._runtime = runtime
        self._arbiter = arbiter
        self._gpus = gpus
        self._kernel = kernel
        self._settings = settings
        self._timeline = timeline
        self._journal = journal

    def carry_out(self, instruction: do.Instruction) -> None:
        """Carry out one instruction; for a process that is gone, only StateChanged is recorded."""
        if type(instruction) is do.StateChanged:
            self.state_changed(instruction)
            return
        client = self.clients.get(instruction.tenant)
        if client is not None:
            _CARRY[type(instruction)](self, client, instruction)

    # Leases

    def grant(self, client: Client, wanted: do.Grant) -> None:
        """Open the gate, unless the thread did: it may have closed it again since."""
        note = lease_note(Type.GRANT, wanted.epoch)
        if not client.connection.is_expected(note):
            client.page.open(wanted.epoch)  # before the packet: its reader finds the word open
            self._kernel.give_way()  # who was woken may be on this very processor; the rest waits
        client.connection.send(note)

    def state_changed(self, change: do.StateChanged) -> None:
        """Record the end of a stay in a state, and what a new holder still waits for."""
        self._timeline.ended(change)
        if change.after in WITH_LEASE and (client := self.clients.get(change.tenant)):
            for gpu in set(client.allocating.values()):  # it is answered at once, or only after
                self._timeline.growing(client.number, gpu)  # room was made

    def revoke(self, client: Client, wanted: do.Revoke) -> None:
        """Close the gate, unless the thread did: it may have opened it again since."""
        note = lease_note(Type.REVOKE, wanted.epoch)
        if not client.connection.is_expected(note):
            client.page.close(wanted.epoch)
        client.connection.send(note)

    def allow_one(self, client: Client, wanted: do.AllowOne) -> None:
        """Let one thread at the closed gate pass it for one call."""
        client.connection.send(lease_note(Type.ALLOW_ONE, wanted.epoch))

    # Memory

    def restore_budget(self, client: Client, wanted: do.RestoreBudget) -> None:
        """Let the process make this many bytes resident."""
        gpu = wanted.gpu
        paged = self._arbiter.managed_bytes(client.number, gpu)
        if wanted.bytes > paged:  # the driver's pages come when they are touched, unseen
            self._timeline.restoring(client.number, gpu, wanted.bytes - paged)
            if client.talks:
                for call in self.on_restoring:
                    call(client, gpu, wanted.bytes - paged)
        self._registry.sample(client, gpu)
        budget = AmountMessage(Type.RESTORE_BUDGET, 0, gpu, wanted.bytes)
        client.connection.send(budget.encode())

    def evict(self, client: Client, wanted: do.Evict) -> None:
        """Have the process move this many bytes to host memory."""
        self._timeline.evicting(client.number, wanted.gpu)
        client.connection.send(AmountMessage(Type.EVICT, 0, wanted.gpu, wanted.bytes).encode())

    def content_query(self, client: Client, wanted: do.ContentQuery) -> None:
        """Ask the process what of its bytes is zeros."""
        client.connection.send(AmountMessage(Type.CONTENT_QUERY, 0, wanted.gpu).encode())

    def host_short(self, client: Client, wanted: do.HostShort) -> None:
        """Record that the host has no room for a process' turn, and end it if told to."""
        if wanted.kill:
            text = f"this program ends now: {wanted.text}"
            client.connection.send(WarningMessage(text=text).encode())
            when_s = self._runtime.now() + LAST_WORDS_S
            self._runtime.call_at(when_s, self._kill, client, wanted.text, WHEN_FULL)
        elif self._journal.often(client.number, "HostFull", wanted.text, client):
            self._runtime.log.info("host_short", client=str(client), text=wanted.text)

    def credit_grant(self, client: Client, wanted: do.CreditGrant) -> None:
        """Let the process allocate this many bytes without asking."""
        told = CreditMessage(gpu=wanted.gpu, bytes=wanted.bytes, most_bytes=wanted.most_bytes)
        client.connection.send(told.encode())

    def credit_revoke(self, client: Client, wanted: do.CreditRevoke) -> None:
        """Take back the credit that the process has not used."""
        client.connection.send(AmountMessage(Type.CREDIT_REVOKE, 0, wanted.gpu).encode())

    def admitted(self, client: Client, wanted: do.Admitted) -> None:
        """Answer a request for a GPU or for memory."""
        serial, gpu = wanted.serial, wanted.gpu
        if not serial or client.attaching.pop(serial, None) is not None:
            self._timeline.joined(client.number, gpu)
            self.attach(client, serial, gpu)
            self._registry.sample(client, gpu)
        elif client.allocating.pop(serial, None) is not None:
            client.connection.send(AmountMessage(Type.ALLOC_REPLY, serial, gpu).encode())
            for call in self.on_grown:
                call(client)
            if gpu not in client.allocating.values():
                self._timeline.grown(client.number, gpu)
            self._registry.sample(client, gpu)
        elif (asked := client.pinning.pop(serial, None)) is not None:
            client.connection.send(AmountMessage(Type.PIN_REPLY, serial, asked.gpu).encode())
            self.pinned(client, None if gpu == EVERY_GPU else gpu, asked.bytes, asked.call)

    def pinned(self, client: Client, gpu: int | None, amount: int, call: str) -> None:
        """Record that memory of a process stays on the GPU; with `gpu` None, all of it."""
        call = plain(call) or "unknown"
        if gpu is None:
            client.pinned = call
            text = f"it called {call}: all of its memory stays on the GPU"
        else:
            if self._arbiter.pinned_bytes(client.number) <= amount:
                client.pins.clear()  # all that was pinned before is free, or can leave again
            name = call if call in client.pins or len(client.pins) < UNKNOWN_MAX else "other calls"
            client.pins[name] = client.pins.get(name, 0) + amount
            text = f"it called {call}: {format_bytes(amount)} stay on the GPU"
        if self._journal.often(client.number, "Pinned", text, client, gpu):
            self._runtime.log.info("pinned", client=str(client), call=call, gpu=gpu, bytes=amount)

    def damaged(self, client: Client, gpu: int, amount: int) -> None:
        """Record that bytes of a process were damaged in host memory, and that it lost them."""
        text = f"{format_bytes(amount)} of its GPU memory were damaged while they were on the host"
        if self._journal.often(client.number, "HostCopyDamaged", text, client, gpu):
            self._runtime.log.warning("damaged", client=str(client), gpu=gpu, bytes=amount)

    def refused(self, client: Client, wanted: do.Refused) -> None:
        """Refuse a request for a GPU, for memory, or to pin memory."""
        gpu = None if wanted.gpu == EVERY_GPU else wanted.gpu
        if client.pinning.pop(wanted.serial, None) is None:
            self._end_request(client, wanted)
        code = CODES[wanted.code]
        refused = RefusedMessage(serial=wanted.serial, code=code, text=wanted.text).encode()
        if wanted.serial:
            client.connection.send(refused)
        else:  # what it has on this GPU is not counted: it comes back, and is asked again
            client.connection.send_last(refused)
            self._registry.proofs.ask(client, wanted.gpu)
            self._registry.disconnected(client, "")
        if gpu is not None:
            self._timeline.refused(client.number, gpu, wanted.text)
        if self._journal.often(client.number, "Refused", wanted.text, client, gpu):
            self._runtime.log.info(
                "refused", client=str(client), code=wanted.code, text=wanted.text
            )

    def _end_request(self, client: Client, wanted: do.Refused) -> None:
        """Forget a request for a GPU or for memory that is refused."""
        asked_bytes = client.allocating.pop(wanted.serial, None) is not None
        is_new = client.attaching.pop(wanted.serial, None) is not None
        if is_new or not (wanted.serial or asked_bytes):  # 0: a context from before is not counted
            client.gpus.discard(wanted.gpu)
            self._gpus[wanted.gpu].end_announcement(client.number)
            if client.resumed:
                client.unspoken.add(wanted.gpu)  # what was counted there stays so until it is back
            self._registry.gpus_changed(client)
        if wanted.gpu not in client.allocating.values():
            self._timeline.grown(client.number, wanted.gpu)

    def attach(self, client: Client, serial: int, gpu: int) -> None:
        """Tell a process how it may use a GPU."""
        client.limits[gpu] = self._gpus[gpu].limit_bytes(client.share)
        beside = self._arbiter.limited_beside_bytes(client.number, gpu)
        reply = AttachedMessage(
            serial=serial,
            gpu=gpu,
            together=int(beside is not None),
            limit_bytes=client.limits[gpu],
            chunk_bytes=self._gpus[gpu].budget.chunk_bytes,
            others_bytes=beside or 0,
        )
        client.connection.send(reply.encode())

    def tell_limits(self, client: Client) -> None:
        """Tell a process its limits where they have changed."""
        for gpu, told in client.limits.items():
            limit = self._gpus[gpu].limit_bytes(client.share)
            if limit != told:
                client.limits[gpu] = limit
                client.connection.send(AmountMessage(Type.LIMIT, 0, gpu, limit).encode())

    def set_mode(self, client: Client, mode: Mode) -> None:
        """Tell a process how to allocate from now on, if that has changed."""
        if mode is not client.mode:
            client.mode = mode
            client.connection.send(ModeMessage(mode=MODES[mode]).encode())

    # Time

    def set_idle_timeout(self, client: Client, wanted: do.SetIdleTimeout) -> None:
        """Have the process say when it has submitted nothing for this long."""
        idle_us = max(1, round(wanted.idle_s * 1e6)) if wanted.idle_s > 0 else 0
        client.connection.send(IdleTimeoutMessage(idle_us=idle_us).encode())

    def set_queue_depth(self, client: Client, wanted: do.SetQueueDepth) -> None:
        """Have the process queue at most this much work on the GPU."""
        client.connection.send(QueueDepthMessage(queue_us=round(wanted.queue_s * 1e6)).encode())

    def overdue(self, client: Client, wanted: do.Overdue) -> None:
        """Record that a process does not give its GPU back, and fence or end it if told to."""
        self._timeline.overdue(client.number, wanted.waited_s)
        self._runtime.log.warning(
            "overdue",
            client=str(client),
            waited_s=round(wanted.waited_s, 3),
            state=wanted.state,
            kill=wanted.kill,
        )
        waited = format_duration(max(0.1, round(wanted.waited_s, 1)))
        moves = wanted.state in ("idle", "queued", "suspended")  # it has given its lease back
        what = "move its memory out" if moves else "give the GPU back"
        late = f"did not {what} within {waited}"
        if wanted.state == do.PINNED:
            late = f"shuts out another program for {waited}: its memory cannot leave the GPU since "
            late += f"it called {client.pinned or 'an unknown function'}"
            if self._journal.often(client.number, "Overdue", late, client):
                client.connection.send(WarningMessage(text=f"this program {late}").encode())
        elif wanted.state == "fenced":
            self.fence(client, fenced=True)
            self._journal.note("Fenced", f"{late}; others go on without what it has", client)
        else:
            self._journal.note("Overdue", late, client)
        if wanted.kill:
            self._kill(client, late, "--overdue kill")

    def keeps_segments(self, client: Client) -> None:
        """Record that a process does not answer what host memory it can give back, or end it.

        One that is stopped, or carries out an order, answers after that.
        """
        if self._arbiter.has_order(client.number) or self._kernel.is_stopped(client.pid):
            return
        settings = self._settings.now
        waited = format_duration(settings.revoke_deadline_s)
        late = f"did not answer within {waited} whether it can give back host memory"
        self._journal.often(client.number, "Overdue", late, client)
        if settings.overdue is OverduePolicy.KILL:
            self._kill(client, late, "--overdue kill")

    def _kill(self, client: Client, why: str, setting: str) -> None:
        if self.clients.get(client.number) is not client:
            return  # it has ended by itself
        self._journal.note("Killed", f"{why}; the agent runs with {setting}", client)
        self._kernel.kill(client.pidfd)

    def fence(self, client: Client, *, fenced: bool) -> None:
        """Record whether a process may have a lease: agents that follow keep to it."""
        if client.fenced != fenced:
            client.fenced = fenced
            self._registry.gpus_changed(client)

    def suspended(self, client: Client, wanted: do.Suspended) -> None:
        """Record that all of a suspended process that can leave has left."""
        self._runtime.log.info("suspended", client=str(client), staying_bytes=wanted.staying_bytes)
        for call in self.on_suspended:
            call(client, wanted)

    def check_stopped(self, client: Client, wanted: do.CheckStopped) -> None:
        """Look whether a process is stopped; the answer is an event of its own, after this step."""
        del wanted
        self._runtime.call_at(self._runtime.now(), self._registry.check_stopped, client)


_CARRY: Final[dict[type, Callable[[Executor, Client, Any], None]]] = {
    do.Admitted: Executor.admitted,
    do.Refused: Executor.refused,
    do.RestoreBudget: Executor.restore_budget,
    do.Grant: Executor.grant,
    do.Revoke: Executor.revoke,
    do.AllowOne: Executor.allow_one,
    do.Evict: Executor.evict,
    do.ContentQuery: Executor.content_query,
    do.HostShort: Executor.host_short,
    do.SetIdleTimeout: Executor.set_idle_timeout,
    do.SetQueueDepth: Executor.set_queue_depth,
    do.CreditGrant: Executor.credit_grant,
    do.CreditRevoke: Executor.credit_revoke,
    do.Overdue: Executor.overdue,
    do.CheckStopped: Executor.check_stopped,
    do.Suspended: Executor.suspended,
}
