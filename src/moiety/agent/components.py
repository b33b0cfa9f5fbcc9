"""All components of one agent, made and connected. No component receives this whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor as ThreadPool
from dataclasses import dataclass
from functools import partial
from typing import Any

from moiety.agent.arena.arena import Arena, ArenaSize
from moiety.agent.core.catch_up import catch_up
from moiety.agent.core.client import Client
from moiety.agent.core.clients import Clients
from moiety.agent.core.event_recorder import StepRecorder
from moiety.agent.core.executor import Executor
from moiety.agent.core.fast_handoff import FastHandoff
from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import ManagedGpu
from moiety.agent.core.journal import Journal
from moiety.agent.core.native_reader import NativeReader
from moiety.agent.core.orphans import Known, Orphans
from moiety.agent.core.proofs import Proofs, Recorded
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.core.read_turns import ReadTurns
from moiety.agent.core.recovery import Recovery
from moiety.agent.core.runtime import LiveSettings, Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.monitor.telemetry_history import TelemetryHistory
from moiety.agent.monitor.usage_monitor import UsageMonitor
from moiety.agent.monitor.xid_errors import XidErrors
from moiety.agent.shim.gang_detection import GangDetection
from moiety.agent.shim.handlers import Handlers
from moiety.agent.shim.ipc_broker import IpcBroker
from moiety.agent.shim.session import SessionContext
from moiety.agent.shim.wait_messages import WaitMessages
from moiety.agent.system import processes
from moiety.agent.system.event_loop import EventLoop
from moiety.agent.system.kernel import Kernel
from moiety.arbiter.checkpoint import take
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import Settings
from moiety.devices.budget import GpuBudget
from moiety.devices.interface import Device, Devices
from moiety.enforcement.policy import Policy
from moiety.model.errors import NativeLibraryMissing


@dataclass(slots=True)
class Components:
    """The parts of one agent, by name."""

    loop: EventLoop
    log: Any
    devices: Devices
    runtime: Runtime
    settings: LiveSettings
    arbiter: Arbiter
    gpus: dict[int, ManagedGpu]
    clients: Clients
    executor: Executor
    probe: GpuProbe
    orphans: Orphans
    recovery: Recovery
    timeline: Timeline
    recorder: StepRecorder
    journal: Journal
    gangs: GangDetection
    ipc: IpcBroker
    wait_messages: WaitMessages
    sessions: SessionContext
    limits: RateLimits
    arena: Arena | None = None
    monitor: UsageMonitor | None = None
    xid_errors: XidErrors | None = None
    telemetry: TelemetryHistory | None = None
    handoff: FastHandoff | None = None

    def add_fast_handoff(self, reader: NativeReader | None = None) -> None:
        """Read programs' messages in a native thread; without it hand-offs are slower."""
        try:
            reader = reader or NativeReader()
        except (NativeLibraryMissing, OSError) as error:
            self.runtime.log.warning("fast_handoff_unavailable", problem=str(error))
            return
        clients = self.clients.by_number
        self.handoff = self.sessions.thread = FastHandoff(
            self.loop, self.runtime, clients, self.arbiter.armed, reader
        )

    async def catch_up(self) -> None:
        """Take in what programs have said by now."""
        take = self.handoff.take_in if self.handoff else lambda: True
        await catch_up(self.clients.by_number, take)

    def add_arena(self, size: ArenaSize) -> None:
        """Prepare host memory for evicted data."""
        self.arena = arena = Arena(
            self.runtime,
            self.loop,
            size,
            clients=self.clients.by_number,
            gpus=self.gpus,
            arbiter=self.arbiter,
            journal=self.journal,
        )
        arena.on_overdue.append(self.executor.keeps_segments)
        arena.deadline_s = lambda: self.settings.now.revoke_deadline_s
        self.runtime.on_fed.append(arena.on_event)
        self.clients.on_left.append(arena.on_left)
        self.clients.on_resumed.append(arena.on_resumed)
        self.clients.host_memory_of = arena.lent_to
        self.sessions.handlers.arena = arena

    def add_monitors(self, policy: Policy) -> None:
        """Watch which processes use the GPUs, and listen to the driver's errors."""
        self.monitor = monitor = UsageMonitor(
            self.runtime,
            self.loop,
            self.devices,
            policy,
            probe=self.probe,
            gpus=self.gpus,
            clients=self.clients.by_number,
            arbiter=self.arbiter,
            recovery=self.recovery,
            timeline=self.timeline,
            journal=self.journal,
        )
        monitor.start()
        self.clients.on_left.append(monitor.on_left)
        self.xid_errors = errors = XidErrors(
            self.runtime,
            self.loop,
            self.devices,
            gpus=self.gpus,
            clients=self.clients.by_number,
            journal=self.journal,
        )
        errors.start()
        self.telemetry = TelemetryHistory(
            self.runtime,
            self.loop,
            self.devices,
            probe=self.probe,
            gpus=self.gpus,
            arbiter=self.arbiter,
        )
        self.telemetry.start()

    def stop(self) -> None:
        """Hang up on every process and stop every component; the journal stays open."""
        if self.monitor:
            self.monitor.stop()
        if self.xid_errors:
            self.xid_errors.stop()
        if self.telemetry:
            self.telemetry.stop()
        self.clients.stop()
        if self.handoff:
            self.handoff.stop()
        self.runtime.stop()
        self.orphans.stop()
        self.wait_messages.stop()
        if self.arena:
            self.arena.stop()
        self.probe.stop()


def build(
    loop: EventLoop,
    devices: Devices,
    budgets: Iterable[tuple[Device, GpuBudget]],
    settings: Settings,
    log: Any,
    *,
    expected: Recorded | None = None,
    fenced: Iterable[int] = (),
    known: Mapping[int, Known] | None = None,
    journal: Journal | None = None,
    kernel: Kernel = processes,
    worker: ThreadPool | None = None,
    limits: RateLimits | None = None,
    shared: bool = False,
) -> Components:
    """Make and connect the components of an agent that has the GPUs of `budgets`.

    `expected` is what the processes had that outlived the last agent, `fenced` the pids that it had
    fenced, `known` what it knew of them, by pid. NVML is called in `worker`; None: in a thread of
    its own. `shared`: the programs belong to several users, who must not learn each other's names.
    """
    gpus = {device.index: ManagedGpu(device, budget) for device, budget in budgets}
    outlived = {pid: frozenset(on) for pid, on in (expected or {}).items()}
    journal = journal or Journal()
    journal.timed_by(loop)
    limits = limits or RateLimits()
    by_number: dict[int, Client] = {}
    next_number = itertools.count(1).__next__
    timeline = Timeline()
    runtime = Runtime(loop, log)
    live = LiveSettings(runtime, settings)
    arbiter = Arbiter(
        [gpu.spec for gpu in gpus.values()],
        settings,
        settled=not outlived,
    )
    probe = GpuProbe(
        runtime,
        loop,
        devices,
        gpus,
        by_number,
        arbiter,
        journal,
        worker,
        kernel=kernel,
        shared=shared,
    )
    orphans = Orphans(
        runtime,
        loop,
        probe=probe,
        kernel=kernel,
        gpus=gpus,
        settings=live,
        timeline=timeline,
        journal=journal,
        next_number=next_number,
        known=known or {},
        account_of=limits.account_of,
        shared=shared,
    )
    proofs = Proofs(probe, gpus, kernel, expected or {})
    recovery = Recovery(runtime, orphans, kernel, by_number, outlived, fenced)
    clients = Clients(
        runtime,
        loop,
        by_number,
        arbiter=arbiter,
        probe=probe,
        gpus=gpus,
        kernel=kernel,
        orphans=orphans,
        recovery=recovery,
        proofs=proofs,
        timeline=timeline,
        journal=journal,
        next_number=next_number,
    )
    executor = Executor(
        runtime,
        clients,
        arbiter=arbiter,
        gpus=gpus,
        kernel=kernel,
        settings=live,
        timeline=timeline,
        journal=journal,
    )
    recorder = StepRecorder(partial(take, arbiter))
    runtime.begin(arbiter, timeline, recorder, executor.carry_out)
    gangs = GangDetection(runtime, by_number, arbiter=arbiter, timeline=timeline, journal=journal)
    ipc = IpcBroker(runtime, by_number, recovery)
    wait_messages = WaitMessages(
        runtime,
        by_number,
        arbiter=arbiter,
        recovery=recovery,
        settings=live,
        shared=shared,
    )
    handlers = Handlers(
        runtime,
        clients,
        executor=executor,
        probe=probe,
        gpus=gpus,
        timeline=timeline,
        journal=journal,
        ipc=ipc,
        gangs=gangs,
        wait_messages=wait_messages,
    )
    ipc.on_opened.append(gangs.opened)
    recovery.on_settled.append(ipc.settled)
    executor.on_restoring.append(wait_messages.restoring)
    clients.on_left.append(probe.left)
    clients.on_forgotten += [ipc.left, wait_messages.left]
    recovery.begin()
    return Components(
        loop=loop,
        log=log,
        devices=devices,
        runtime=runtime,
        settings=live,
        arbiter=arbiter,
        gpus=gpus,
        clients=clients,
        executor=executor,
        probe=probe,
        orphans=orphans,
        recovery=recovery,
        timeline=timeline,
        recorder=recorder,
        journal=journal,
        gangs=gangs,
        ipc=ipc,
        wait_messages=wait_messages,
        sessions=SessionContext(
            runtime=runtime,
            loop=loop,
            clients=clients,
            handlers=handlers,
            gangs=gangs,
            gpus=gpus,
            arbiter=arbiter,
            journal=journal,
            kernel=kernel,
            limits=limits,
            reads=ReadTurns(loop),
            shared=shared,
        ),
        limits=limits,
    )
