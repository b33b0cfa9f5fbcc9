"""Workloads that are suspended: told to the arbiter, written down for agents that follow, resumed.

A workload is suspended as a whole, with the processes that come to it later. What its share
promises is given back meanwhile, and is checked again when it is resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.rights import is_pool, only_own
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.shares import Shares
from moiety.agent.core.client import Client
from moiety.agent.core.clients import Clients
from moiety.agent.core.executor import Executor
from moiety.agent.core.runtime import Runtime
from moiety.agent.shim.wait_messages import RESUMED, SUSPENDED
from moiety.agent.system import processes
from moiety.agent.system.users import name_of
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.snapshots import TenantView
from moiety.config.values import Visible
from moiety.model.errors import ShareTaken
from moiety.model.format import format_bytes
from moiety.wire.messages import TerminalLineMessage

WAIT_MAX_S: Final = 5.0
"""The longest time until a command is answered; it may ask again."""


class Suspensions:
    """Suspends and resumes the workloads of one agent."""

    def __init__(
        self, runtime: Runtime, clients: Clients, executor: Executor, shares: Shares
    ) -> None:
        """Listens to processes that come, and to what the arbiter reports of them."""
        self.visible_to: Callable[[processes.Peer], Visible] = lambda _: Visible.NOTHING
        """What a user sees of others' programs."""
        self.pool_uid: Callable[[], int | None] = lambda: None
        """The account of the machine's pool."""
        self._runtime = runtime
        self._clients = clients.by_number
        self._shares = shares
        self._workloads = shares.workloads
        self._over: set[int] = set()
        """The tenants of which all has left that can."""
        self._changed = asyncio.Event()
        clients.on_joined.append(self._joined)
        clients.on_forgotten.append(self._forgotten)
        executor.on_suspended.append(self._suspended)

    async def suspend(
        self, asked: protocol.SuspendWorkload, peer: processes.Peer
    ) -> protocol.WorkloadSuspended:
        """Suspend a workload, and wait until its memory has left its GPUs, or for a while."""
        workload = self._find(asked.target, peer)
        record = workload.record
        if not record.suspended:
            self._write(workload, suspended=True)
            self._runtime.log.info("suspend", workload=record.id, by=peer.uid)
            for number in sorted(workload.clients & self._clients.keys()):
                self._suspend(self._clients[number], name_of(peer.uid))
        end_s = self._runtime.now() + min(asked.wait_s, WAIT_MAX_S)
        while self._is_under_way(workload) and (left_s := end_s - self._runtime.now()) > 0:
            changed = self._changed
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), left_s)
        return self._answer(workload)

    async def resume(
        self, asked: protocol.ResumeWorkload, peer: processes.Peer
    ) -> protocol.WorkloadResumed:
        """Give a workload its turns back; raises ShareTaken if others have what it was promised."""
        workload = self._find(asked.target, peer)
        record = workload.record
        if record.suspended:
            self._check(workload)
            self._write(workload, suspended=False)
            self._runtime.log.info("resume", workload=record.id, by=peer.uid)
            for number in sorted(workload.clients & self._clients.keys()):
                self._resume(self._clients[number])
            self._wake()
        return protocol.WorkloadResumed(
            workload=record.id,
            program=record.name or record.program,
            pid=record.root_pid,
            was_suspended=record.suspended,
        )

    def note_maker(self, target: str, maker: processes.Peer) -> None:
        """A workload was made: if the account of the pool did it, it may suspend it."""
        made = self._workloads.by_id.get(target)
        if made is not None and is_pool(maker, self.pool_uid()):
            made.note(msgspec.structs.replace(made.record, by_pool=True), self._runtime.log)

    def _find(self, target: str, peer: processes.Peer) -> RunningWorkload:
        """A workload of the user's; the account of the pool has those that it has made."""
        made = self._workloads.by_id.get(target)
        if made is not None and made.record.by_pool and is_pool(peer, self.pool_uid()):
            return made
        return self._shares.find(target, only_own(peer), self.visible_to(peer))[0]

    def _check(self, workload: RunningWorkload) -> None:
        """Raise ShareTaken, or UserLimit, unless a workload can have what it had."""
        record = workload.record
        cards = () if workload.clients else workload.cards
        self._shares.check(record.share, record.uid, workload, cards, record.labels)
        for number in sorted(workload.clients & self._clients.keys()):
            if no := self._shares.arbiter.refuse_resume(number):
                raise ShareTaken(
                    f"{self._clients[number]}: {no}",
                    "again once a program that was promised memory has ended (`moiety ps -o wide`)",
                )

    def _write(self, workload: RunningWorkload, *, suspended: bool) -> None:
        """Change the record; raises OSError, and nothing is changed then."""
        before = workload.record
        try:
            self._workloads.rewrite(workload, msgspec.structs.replace(before, suspended=suspended))
        except OSError:
            workload.record = before
            raise

    def _is_under_way(self, workload: RunningWorkload) -> bool:
        there = workload.clients & self._clients.keys()
        return workload.record.suspended and not there <= self._over

    def _answer(self, workload: RunningWorkload) -> protocol.WorkloadSuspended:
        record = workload.record
        views = [v for v in self._shares.arbiter.tenants() if v.tenant in workload.clients]
        return protocol.WorkloadSuspended(
            workload=record.id,
            program=record.name or record.program,
            pid=record.root_pid,
            is_over=record.suspended and not self._is_under_way(workload),
            staying_bytes=sum(on.resident_bytes for view in views for on in view.gpus.values()),
            residue_bytes=sum(on.residue_bytes for view in views for on in view.gpus.values()),
            evicted_bytes=sum(
                on.allocated_bytes - on.resident_bytes
                for view in views
                for on in view.gpus.values()
            ),
            stays=[text for view in views if (text := self._stays(view))],
        )

    def _stays(self, view: TenantView) -> str:
        """What of a process is still on its GPUs, and why; empty: nothing that counts."""
        client = self._clients.get(view.tenant)
        has_bytes = any(on.resident_bytes for on in view.gpus.values())
        if client is None or (view.tenant in self._over and not has_bytes):
            return ""
        return f"{client}: {view.reason or view.state}"

    # Processes

    def _joined(self, client: Client) -> None:
        """A process that comes to a suspended workload is suspended, too."""
        workload = self._workloads.by_id.get(client.workload)
        if workload is not None and workload.record.suspended:
            self._suspend(client)

    def _suspend(self, client: Client, by: str = "") -> None:
        if by and client.talks:
            self._say(client, SUSPENDED.text.format(user=by, workload=client.workload))
        self._runtime.feed(ev.Suspend(client.number))

    def _resume(self, client: Client) -> None:
        self._over.discard(client.number)
        self._runtime.feed(ev.Resume(client.number))
        if client.talks:
            self._say(client, RESUMED.text)
        self._shares.journal.often(client.number, "Resumed", "it gets turns again", client)

    def _say(self, client: Client, text: str) -> None:
        client.connection.send(TerminalLineMessage(text=text).encode())

    def _suspended(self, client: Client, wanted: do.Suspended) -> None:
        self._over.add(client.number)
        stays = f", but for {format_bytes(wanted.staying_bytes)}" if wanted.staying_bytes else ""
        text = f"its memory has left the GPU{stays}; `moiety resume {client.workload}` ends that"
        self._shares.journal.often(client.number, "Suspended", text, client)
        self._wake()

    def _forgotten(self, client: Client) -> None:
        self._over.discard(client.number)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class HasSuspensions(Protocol):
    """What answers the commands of an agent."""

    suspensions: Suspensions


async def on_suspend(
    commands: HasSuspensions, asked: protocol.SuspendWorkload, peer: processes.Peer
) -> protocol.WorkloadSuspended:
    """Suspend a workload until it is resumed."""
    return await commands.suspensions.suspend(asked, peer)


async def on_resume(
    commands: HasSuspensions, asked: protocol.ResumeWorkload, peer: processes.Peer
) -> protocol.WorkloadResumed:
    """Let a suspended workload go on."""
    return await commands.suspensions.resume(asked, peer)
