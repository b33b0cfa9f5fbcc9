"""What each command means: one handler for each request, `on_<stem>`, dispatched by one table."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.agent.control import metrics, pool_promises, protocol, saved_settings
from moiety.agent.control.configuration import LIVE, Read, later
from moiety.agent.control.containers import ContainerShares
from moiety.agent.control.conversation import Conversation
from moiety.agent.control.creation import Creation
from moiety.agent.control.gpu_drain import GpuDrain
from moiety.agent.control.limit_report import guarantees_of, limits_of
from moiety.agent.control.limits import LimitEnforcer
from moiety.agent.control.options import Options
from moiety.agent.control.other_rows import workload_rows
from moiety.agent.control.report import Reports
from moiety.agent.control.rights import is_admin, is_pool, must_be_admin, only_own, program_of
from moiety.agent.control.rows import WaiterRow
from moiety.agent.control.saved_settings import SavedSettings
from moiety.agent.control.shares import Shares
from moiety.agent.control.suspensions import Suspensions, on_resume, on_suspend
from moiety.agent.control.visibility import events_for, rows_for, waiters_for
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.clients import Clients
from moiety.agent.core.event_recorder import StepRecorder
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import LiveSettings, Runtime
from moiety.agent.system import processes
from moiety.agent.system.paths import Directory
from moiety.agent.system.users import USERS, beside, name_of
from moiety.config.values import Visible
from moiety.devices.native import is_simulated
from moiety.model.errors import AgentBusy, AgentVersion, BadArgument, CapacityMismatch, MoietyError
from moiety.wire.layout import VERSION, VERSION_LEAST

EVENTS_PAGE: Final = 500
EVENTS_WAIT_S: Final = 5.0
READ_S: Final = 10.0
"""Seconds that reading the configuration may take."""


@dataclass(slots=True)
class ControlCommands:
    """Answers the commands of one agent; `stop` ends the agent."""

    directory: Directory
    options: Options
    product: str
    stop: Callable[[str], None]
    began_s: float
    runtime: Runtime
    settings: LiveSettings
    clients: Clients
    journal: Journal
    recorder: StepRecorder
    workloads: Workloads
    shares: Shares
    creation: Creation
    containers: ContainerShares
    drain: GpuDrain
    reports: Reports
    suspensions: Suspensions
    limits: LimitEnforcer | None = None
    read: Read | None = None
    """Reads the options and rules as they are written now."""
    on_gpus_changed: list[Callable[[], None]] = field(default_factory=list)
    """Called when GPUs were drained or resumed, or the rules for users changed."""
    changed: SavedSettings = field(default_factory=SavedSettings)
    """What was changed since the first agent here started."""
    metrics_address: str = ""
    restarts: bool = False
    """True if the command that ends this agent starts the next one."""
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.suspensions.visible_to = self._visible_to
        self.suspensions.pool_uid = lambda: self.options.pool_uid

    async def answer(
        self, request: Any, peer: processes.Peer, conversation: Conversation | None = None
    ) -> protocol.Answer:
        """Answer one request, by `conversation` one that waits; raises MoietyError or OSError."""
        pool_promises.check(self.directory, request, peer)
        if isinstance(request, protocol.CreateWorkload):
            return await self.on_create_workload(request, peer, conversation)
        return await HANDLERS[type(request)](self, request, peer)

    # Who is there

    async def on_hello(self, asked: protocol.HelloRequest, peer: processes.Peer) -> protocol.Here:
        """Greet a command of the same protocol or the one before; raises AgentVersion."""
        if not VERSION_LEAST <= asked.wire <= VERSION:
            raise AgentVersion(agent=self.product, own=asked.product)
        return protocol.Here(
            product=self.product,
            wire=VERSION,
            pid=os.getpid(),
            capacity_bytes=self.options.capacity_bytes,
            simulated=is_simulated(),
            features=list(protocol.FEATURES),
        )

    async def on_ping(self, asked: protocol.Ping, peer: processes.Peer) -> protocol.Done:
        """Show a sign of life."""
        return protocol.Done()

    async def on_stop(self, asked: protocol.Stop, peer: processes.Peer) -> protocol.Done:
        """End the agent; raises AgentBusy while programs use it."""
        must_be_admin(peer, "end this agent")
        programs = [str(client) for client in self.clients.by_number.values()]
        programs += [f"{row.program} (waits)" for row in self._queue_for(peer)]
        if programs and not asked.force:
            raise AgentBusy(programs=programs)
        self.restarts = asked.restarts
        self.stop("asked to restart" if asked.restarts else "asked to")
        return protocol.Done()

    # Workloads and shares

    async def on_create_workload(
        self,
        asked: protocol.CreateWorkload,
        peer: processes.Peer,
        conversation: Conversation | None = None,
    ) -> protocol.Created:
        """Make the asking process a workload of its own, or the process that it names."""
        asker, peer = peer, program_of(asked, peer, self.options.pool_uid)
        await self._learn(peer)
        self._must_share_out(asked.capacity_bytes)
        created = await self.creation.create(asked, peer, conversation)
        self.suspensions.note_maker(created.id, asker)
        return created

    async def _learn(self, peer: processes.Peer) -> None:
        """Wait until it is known who a user is, and the user who accounts for it."""
        await USERS.found(peer.uid)
        if self.limits:
            await USERS.found(self.limits.account_of(peer.uid))

    async def on_create_container(
        self, asked: protocol.CreateContainer, peer: processes.Peer
    ) -> protocol.Contained:
        """Make a share for containers, or change it."""
        await self._learn(peer)
        self._must_share_out(asked.capacity_bytes)
        only = self.limits.gpus_of(peer.uid) if self.limits else None
        usages = await self.creation.cards.measured(self.creation.usages) if asked.cards else {}
        return self.containers.create(self.containers.placed(asked, only, usages, peer.uid), peer)

    async def on_remove_container(
        self, asked: protocol.RemoveContainer, peer: processes.Peer
    ) -> protocol.Contained:
        """Remove a share for containers."""
        return self.containers.remove(asked, peer)

    async def on_containers(
        self, asked: protocol.Containers, peer: processes.Peer
    ) -> protocol.ContainerRows:
        """List the shares for containers that the user may see."""
        return self.containers.rows(only_own(peer))

    async def on_set_share(self, asked: protocol.SetShare, peer: processes.Peer) -> protocol.Shared:
        """Change the share of a program."""
        return self.shares.change(asked, only_own(peer), self._visible_to(peer))

    def _must_share_out(self, wanted: int | None) -> None:
        if wanted is not None and wanted != self.options.capacity_bytes:
            raise CapacityMismatch(running=self.options.capacity_bytes, wanted=wanted)

    # What is shown

    async def on_status(self, asked: protocol.Status, peer: processes.Peer) -> protocol.NodeStatus:
        """Describe the agent and its GPUs."""
        arena = self.reports.arena
        usages = await self.reports.usages()
        return protocol.NodeStatus(
            pid=os.getpid(),
            product=self.product,
            driver_version=self.reports.driver_version(),
            up_s=self.runtime.now() - self.began_s,
            settled=self.reports.is_settled,
            simulated=is_simulated(),
            arena_bytes=arena.size_bytes if arena else 0,
            arena_ready_bytes=arena.ready_bytes if arena else 0,
            arena_used_bytes=self.reports.arena_used_bytes(),
            workloads=len(self.workloads.by_id),
            tenants=len(self.clients.by_number),
            gpus=self.reports.gpu_rows(usages),
            metrics=self.metrics_address,
            settings=dataclasses.asdict(self.settings.now),
            user=name_of(os.getuid()),
            guarantees=guarantees_of(self.limits, self._visible_to(peer)),
            shared=self.directory.shared,
            queue=self._queue_for(peer),
            notes=self.reports.notes() if is_admin(peer) else [],
            limits=await limits_of(self.limits, asked.limits_of, peer.uid, self._visible_to(peer)),
        )

    async def on_ps(self, asked: protocol.Ps, peer: processes.Peer) -> protocol.Processes:
        """List the processes that the user may see."""
        outside, unseen = await self.reports.outside() if asked.outside else ([], "")
        await self.reports.catch_up()
        rows = self.reports.process_rows()
        if asked.workloads:
            known = {row.workload for row in rows}
            others = [each for each in self.workloads.by_id.values() if each.record.id not in known]
            rows += workload_rows(others, self.workloads.effective)
        seen = rows_for(rows + outside, peer.uid, self._visible_to(peer))
        return protocol.Processes(rows=seen, unseen=unseen, queue=self._queue_for(peer))

    def _queue_for(self, peer: processes.Peer) -> list[WaiterRow]:
        """Return those who wait for GPUs, as far as the user may see them."""
        rows = self.creation.queue.rows() if self.creation.queue else []
        return waiters_for(rows, peer.uid, self._visible_to(peer))

    async def on_timeline(
        self, asked: protocol.TimelineRequest, peer: processes.Peer
    ) -> protocol.Recorded:
        """Return a page of what happened."""
        return self.reports.timeline_page(asked, peer.uid, self._visible_to(peer))

    async def on_event_recording(
        self, asked: protocol.EventRecording, peer: processes.Peer
    ) -> protocol.RecordingPage:
        """Return a page of the arbiter's events and instructions."""
        must_be_admin(peer, "read what this agent decided about all programs")
        found = self.recorder.page(asked.segment, asked.offset)
        return protocol.RecordingPage(pid=os.getpid(), **dataclasses.asdict(found))

    async def on_events(self, asked: protocol.Events, peer: processes.Peer) -> protocol.Happened:
        """Return a page of the journal, or wait for its next event."""
        journal = self.journal
        if asked.after >= journal.next - 1 and asked.wait_s > 0:
            await journal.changed(min(asked.wait_s, EVENTS_WAIT_S))
        found = journal.after(asked.after, EVENTS_PAGE)
        more = bool(found) and found[-1].number < journal.next - 1
        seen = events_for(found, peer.uid, self._visible_to(peer))
        read_to = found[-1].number if found else 0
        return protocol.Happened(events=seen, more=more, read_to=read_to)

    async def on_watch(
        self, asked: protocol.WatchRequest, peer: processes.Peer
    ) -> protocol.Watched:
        """Tell who uses GPUs without moiety, and what is done about it."""
        if not is_pool(peer, self.options.pool_uid):
            must_be_admin(peer, "see who uses GPUs without moiety")
        return self.reports.watched(asked)

    async def metrics(self) -> bytes:
        """Return the answer to Prometheus; every user can ask a port."""
        usages = await self.reports.usages()
        seen = metrics.snapshot(self.reports, usages, self.began_s, self.runtime.now())
        if self.directory.shared and self.options.metrics and not self.options.metrics.path:
            seen = metrics.for_everybody(seen, self.options.visible)
        return await asyncio.get_running_loop().run_in_executor(None, metrics.exposition, seen)

    def _visible_to(self, peer: processes.Peer) -> Visible:
        """Return what a user sees of others."""
        sees_all = is_admin(peer) or is_pool(peer, self.options.pool_uid)
        return Visible.ALL if sees_all else self.options.visible

    # GPUs

    async def on_gpus(self, asked: protocol.GpusRequest, peer: processes.Peer) -> protocol.GpuList:
        """List the GPUs and the workloads on each."""
        return protocol.GpuList(self.drain.rows(peer.uid, self._visible_to(peer)))

    async def on_drain_gpus(
        self, asked: protocol.DrainGpus, peer: processes.Peer
    ) -> protocol.GpuList:
        """Choose GPUs for no new workload, or again; also agents that follow do."""
        if not (asked.drained and is_pool(peer, self.options.pool_uid)):
            must_be_admin(peer, "say which GPUs get programs")
        uuids = self.drain.find(asked.gpus)
        changed = self.changed.with_drained(uuids, drained=asked.drained)
        saved_settings.write(self.directory, changed, self.options)
        self.changed = changed
        self.drain.set(uuids, drained=asked.drained)
        self._retry()
        return protocol.GpuList(self.drain.rows(peer.uid, Visible.ALL, uuids))

    def _retry(self) -> None:
        """Choose again where GPUs are waited for, and where a program has used none yet."""
        for call in self.on_gpus_changed:
            call()

    # Settings

    async def on_pods(self, asked: protocol.NamePods, peer: processes.Peer) -> protocol.Done:
        """Learn what the pods of this machine are called."""
        must_be_admin(peer, "say what pods are called")
        self.journal.pods = asked.names
        return protocol.Done()

    async def on_guarantee_namespaces(
        self, asked: protocol.GuaranteeNamespaces, peer: processes.Peer
    ) -> protocol.Done:
        """Guarantee parts of each GPU's time to namespaces; raises BadArgument."""
        must_be_admin(peer, "guarantee time to namespaces")
        if self.limits is not None:
            self.limits.guarantees.set_namespaces(asked.parts)
            self._retry()
        return protocol.Done()

    async def on_set_agent(self, asked: protocol.SetAgent, peer: processes.Peer) -> protocol.Done:
        """Change the arbiter's settings, also for agents that follow; raises BadArgument."""
        must_be_admin(peer, "change how this agent decides")
        before = self.changed.without_settings() if asked.defaults else self.changed
        changed = before.and_then(asked.settings)
        try:
            found = changed.over(self.options.settings_over(self.settings.now))
        except ValueError as error:
            raise BadArgument.of(error, "moiety set --help") from None
        saved_settings.write(self.directory, changed, self.options)
        self.changed = changed
        self.settings.change(found)
        self.runtime.log.info("set_agent", changed=changed.settings)
        told = ", ".join(f"{k}={v}" for k, v in asked.settings.items()) or "the defaults"
        self.journal.note("SettingsChanged", told)
        return protocol.Done()

    async def on_reload(self, asked: protocol.Reload, peer: processes.Peer) -> protocol.Reloaded:
        """Read the configuration again."""
        must_be_admin(peer, "have the configuration read again")
        return await self.reload()

    async def reload(self) -> protocol.Reloaded:
        """Use the configuration as it is written now; after ConfigError the old one stays."""
        if self.read is None:
            return protocol.Reloaded()
        async with self.reloading:
            return await self._reload(self.read)

    async def _reload(self, read: Read) -> protocol.Reloaded:
        try:
            # Beside the loop: a group's name in there may be a question to a directory service.
            after, rules = await asyncio.wait_for(asyncio.wrap_future(beside(read)), READ_S)
            before = self.options
            if self.limits:
                self.limits.guarantees.check(rules.guaranteed)
            found = self.changed.over(after.settings_over(self.settings.now))
        except (MoietyError, ValueError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                error = BadArgument(f"it could not be read within {READ_S:.0f} s")
            self.runtime.log.error("configuration_refused", problem=str(error))
            self.journal.note("ReloadRefused", f"{error}; what was read before still counts")
            if isinstance(error, MoietyError):
                raise
            raise BadArgument.of(error, "moiety config check") from None
        late = later(before, after)
        self.options = dataclasses.replace(before, **{name: getattr(after, name) for name in LIVE})
        self.settings.change(found)
        if self.reports.monitor and after.watch != before.watch:
            self.reports.monitor.change(after.watch)
        if self.limits:
            self.limits.replace(rules)
        self._retry()
        self.runtime.log.info("reload", later=late)
        self.journal.note("Reloaded", f"for the next agent only: {', '.join(late)}" if late else "")
        return protocol.Reloaded(later=late)


Handler = Callable[[ControlCommands, Any, processes.Peer], Awaitable[protocol.Answer]]
HANDLERS: Final[dict[type[protocol.ControlRequest], Handler]] = {
    protocol.HelloRequest: ControlCommands.on_hello,
    protocol.Ping: ControlCommands.on_ping,
    protocol.CreateWorkload: ControlCommands.on_create_workload,
    protocol.CreateContainer: ControlCommands.on_create_container,
    protocol.RemoveContainer: ControlCommands.on_remove_container,
    protocol.Containers: ControlCommands.on_containers,
    protocol.Status: ControlCommands.on_status,
    protocol.Ps: ControlCommands.on_ps,
    protocol.SetShare: ControlCommands.on_set_share,
    protocol.SetAgent: ControlCommands.on_set_agent,
    protocol.TimelineRequest: ControlCommands.on_timeline,
    protocol.EventRecording: ControlCommands.on_event_recording,
    protocol.Events: ControlCommands.on_events,
    protocol.WatchRequest: ControlCommands.on_watch,
    protocol.GpusRequest: ControlCommands.on_gpus,
    protocol.DrainGpus: ControlCommands.on_drain_gpus,
    protocol.NamePods: ControlCommands.on_pods,
    protocol.GuaranteeNamespaces: ControlCommands.on_guarantee_namespaces,
    protocol.Reload: ControlCommands.on_reload,
    protocol.Stop: ControlCommands.on_stop,
    protocol.SuspendWorkload: on_suspend,
    protocol.ResumeWorkload: on_resume,
}
"""By request; the stem is the tag of the request on the socket."""
