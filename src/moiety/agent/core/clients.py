"""The processes that share this agent's GPUs, from their greeting until they are gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from moiety.agent.core.client import Client
from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.orphans import Orphans
from moiety.agent.core.proofs import Proofs
from moiety.agent.core.recovery import SETTLE_S, Recovery
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.system.event_loop import EventLoop, Timer
from moiety.agent.system.kernel import Kernel
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter
from moiety.devices.interface import Usage
from moiety.model.errors import ProtocolError
from moiety.model.format import format_bytes

RECONNECT_S = 2.0
"""How long a living process may be without a connection before it counts as gone."""


class Clients:
    """Registers processes, and notices which of them are gone.

    `on_joined` is called once the arbiter knows a process, `on_changed` before a process uses other
    GPUs than before, `on_left` when one is gone
    and the arbiter is about to be told, `on_forgotten` when the arbiter has been told, and
    `on_resumed` when a process whose connection broke has another: (before, now).
    """

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        by_number: dict[int, Client],
        *,
        arbiter: Arbiter,
        probe: GpuProbe,
        gpus: Gpus,
        kernel: Kernel,
        orphans: Orphans,
        recovery: Recovery,
        proofs: Proofs,
        timeline: Timeline,
        journal: Journal,
        next_number: Callable[[], int],
    ) -> None:
        """`by_number` is filled here, and read by others; `next_number` numbers a tenant."""
        self.by_number = by_number
        self.next_number = next_number
        self.proofs = proofs
        self.on_changed: list[Callable[[Client], None]] = []
        self.on_joined: list[Callable[[Client], None]] = []
        self.on_left: list[Callable[[Client], None]] = []
        self.on_forgotten: list[Callable[[Client], None]] = []
        self.on_resumed: list[Callable[[Client, Client], None]] = []
        self.host_memory_of: Callable[[Client], str] = _has_none
        """The name of the memfds that a process was lent, and may have data in; empty: none."""
        self._runtime = runtime
        self._loop = loop
        self._arbiter = arbiter
        self._probe = probe
        self._gpus = gpus
        self._kernel = kernel
        self._orphans = orphans
        self._recovery = recovery
        self._timeline = timeline
        self._journal = journal
        self._grace: dict[int, Timer] = {}
        """By tenant: the timer after which a process without a connection is looked for."""

    def sample(self, client: Client, gpu: int) -> None:
        """Record how much of a process is on a GPU now."""
        number = client.number
        resident = self._arbiter.resident_bytes(number, gpu)
        if resident > client.peaks.get(gpu, 0):
            client.peaks[gpu] = resident
        self._timeline.sample(number, gpu, resident)

    def check_credit(self, client: Client, gpu: int, used: int) -> None:
        """Raise ProtocolError if a process says that it used more credit than it has."""
        credit = self._arbiter.credit_bytes(client.number, gpu)
        if used > credit:
            raise ProtocolError(
                f"it allocated {format_bytes(used)} without asking, and had {format_bytes(credit)} "
                f"of credit on GPU {gpu}"
            )

    def check_refill(self, client: Client, gpu: int, freed: int) -> None:
        """Raise ProtocolError if a process returns more to its credit than one may have."""
        if freed > self._arbiter.refill_bytes(client.number, gpu):
            raise ProtocolError(
                f"it returned {format_bytes(freed)} to its credit on GPU {gpu}, and had no such "
                "credit"
            )

    def known_as(self, pid: int, started: int, workload: str) -> Client | None:
        """Return what a process was registered as until now, if at all."""
        own = [
            c
            for c in self.by_number.values()
            if (c.pid, c.started, c.workload) == (pid, started, workload)
        ]
        return own[-1] if own else None

    def may_hold(self, pid: int, before: Client | None) -> bool:
        """Tell whether a process can have a lease, or had one and has not answered."""
        if before is None:
            return self._recovery.may_hold(pid)
        return self._arbiter.has_work(before.number)

    def is_recorded(self, pid: int) -> bool:
        """Tell whether the last agent recorded a process that comes back for the first time."""
        return self._recovery.may_hold(pid) or self._orphans.has(pid)

    def is_awaited(self, pid: int) -> bool:
        """Tell whether a process of the last agent may come back: it is stopped, or has memory."""
        recovery = self._recovery
        is_away = recovery.may_hold(pid) and self._kernel.is_stopped(pid)
        return is_away or recovery.outlived(pid)

    def is_fenced(self, pid: int, before: Client | None) -> bool:
        """Tell whether a process that comes back was fenced, and has not answered since."""
        return before.fenced if before else self._recovery.was_fenced(pid)

    def join(self, client: Client, event: ev.Hello) -> None:
        """Register a process; this ends its earlier registration.

        If only its connection broke, its memory stays counted until it has said what it has.
        """
        before = self.known_as(client.pid, client.started, client.workload)
        if before and event.resumed:
            event = replace(event, replaces=before.number)
            client.unspoken = before.gpus | before.unspoken
            client.peaks = before.peaks
            for call in self.on_resumed:
                call(before, client)
            self._remove(before, "its connection broke and it has another")
        elif before:
            self.leave(before, "it reconnected")
        if orphan := self._orphans.number_of(client.pid):
            if event.resumed:
                event = replace(event, replaces=orphan)
                client.unspoken = set(self._gpus)
            else:
                self._runtime.feed(ev.Left(orphan))
            self._timeline.forget(orphan)
        if event.resumed:
            client.unspoken |= self.proofs.gpus_of(client)
        else:
            self.proofs.forget(client)
        self._recovery.connected(client.pid)
        self.by_number[client.number] = client
        self._timeline.name(client.number, client.pid, client.program, client.workload)
        self._timeline.owners[client.number] = client.uid
        self._loop.add_reader(client.pidfd, self.leave, client, "it ended")
        self.gpus_changed(client)
        self._runtime.feed(replace(event, share=client.part))
        if before and event.resumed:
            self._forget(before)
        for tell in self.on_joined:
            tell(client)
        if client.unspoken:
            when_s = self._runtime.now() + SETTLE_S
            self._runtime.call_at(when_s, self._give_up_unspoken, client)
        self._recovery.came_back(client.pid, client.gpus)

    def _give_up_unspoken(self, client: Client) -> None:
        """Detach the contexts that a process has not mentioned since its connection broke."""
        if self.by_number.get(client.number) is client:
            for gpu in sorted(client.unspoken):
                client.unspoken.discard(gpu)
                self._runtime.feed(ev.Detach(client.number, gpu))

    def gpus_changed(self, client: Client) -> None:
        """Call `on_changed`: the process is about to use other GPUs."""
        for call in self.on_changed:
            call(client)

    def attached(self, client: Client) -> None:
        """A process has attached a GPU, maybe the last one that it had with the last agent."""
        self._recovery.came_back(client.pid, client.gpus)

    def disconnected(self, client: Client, reason: str) -> None:
        """The connection is gone; the process may still live, and come back."""
        if client.number not in self.by_number:
            return
        if reason:
            self._runtime.log.warning("connection_dropped", client=str(client), reason=reason)
            self._journal.lives("ConnectionLost", reason, client)
        self._await(client)

    def _await(self, client: Client) -> None:
        """Give a process time to come back."""
        when_s = self._runtime.now() + RECONNECT_S
        self._grace[client.number] = self._runtime.call_at(when_s, self._miss, client)

    def _miss(self, client: Client) -> None:
        """Look for a process that did not come back: while it is stopped, it keeps its memory.

        It also keeps it while the driver reports memory of it, or the kernel host memory that it
        was lent. A process that called exec, or ended its work with the GPU, has neither any more.
        """
        if self._kernel.is_stopped(client.pid):
            self._await(client)
        else:
            self._seek(client, sorted(client.gpus | client.unspoken))

    def _seek(self, client: Client, gpus: list[int]) -> None:
        """Ask the driver, GPU by GPU, whether a process without a connection has memory there."""
        if self.by_number.get(client.number) is not client:
            return
        if not gpus:
            self._seek_host_memory(client)
            return

        def looked(usage: Usage | None) -> None:
            if self.by_number.get(client.number) is not client:
                return
            if usage is None or usage.processes.get(client.pid):
                self._await(client)
            else:
                self._seek(client, gpus[1:])

        self._probe.usage(gpus[0], looked)

    def _seek_host_memory(self, client: Client) -> None:
        """Ask the kernel whether a process without a connection has lent host memory mapped."""

        def looked(found: bool) -> None:
            if self.by_number.get(client.number) is not client:
                return
            if found:
                self._await(client)
            else:
                self.leave(client, "it lost its connection and did not come back")

        def ask(name: str) -> None:
            found = self._kernel.has_mapped(client.pid, name)
            self._loop.call_soon_threadsafe(looked, found)

        if name := self.host_memory_of(client):
            self._probe.submit(partial(ask, name))
        else:
            looked(found=False)

    def leave(self, client: Client, reason: str) -> None:
        """A process is gone, with everything that it had."""
        if self.by_number.get(client.number) is client:
            self._remove(client, reason)
            self.proofs.forget(client)
            self._runtime.feed(ev.Left(client.number))
            self._forget(client)
            self._recovery.came_back(client.pid, None)

    def _remove(self, client: Client, reason: str) -> None:
        """Release what is kept for a process; the caller tells the arbiter."""
        self._runtime.settle()  # while all are still there
        del self.by_number[client.number]
        if timer := self._grace.pop(client.number, None):
            timer.cancel()
        self._loop.remove_reader(client.pidfd)
        client.dispose()
        self._runtime.log.info("left", client=str(client), tenant=client.number, reason=reason)
        self._journal.forget(client)
        self._journal.lives("Left", reason, client)
        for call in self.on_left:
            call(client)

    def _forget(self, client: Client) -> None:
        """The arbiter knows that the process is gone."""
        for call in self.on_forgotten:
            call(client)
        self._timeline.forget(client.number)

    def check_stopped(self, client: Client) -> None:
        """Tell the arbiter whether a process that is slow to answer is stopped."""
        if client.number in self.by_number:
            self._runtime.feed(ev.StopChecked(client.number, self._kernel.is_stopped(client.pid)))

    def stop(self) -> None:
        """Hang up on every process; lease pages keep their last word, so holders continue."""
        for client in list(self.by_number.values()):
            self._loop.remove_reader(client.pidfd)
            client.dispose()
        self.by_number.clear()


def _has_none(client: Client) -> str:
    del client
    return ""
