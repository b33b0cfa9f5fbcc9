"""The state of the agent as rows for `moiety status` and `moiety ps`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from moiety.agent.arena.arena import Arena
from moiety.agent.control.other_rows import (
    BLIND,
    STARTING,
    STOPPED,
    UNCONNECTED,
    orphan_rows,
    outside_rows,
)
from moiety.agent.control.protocol import Recorded, TimelineRequest, Watched, WatchRequest
from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.agent.control.timeline_pages import recorded
from moiety.agent.control.usage_report import notes, watched
from moiety.agent.control.visibility import recorded_for
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.recovery import UNSETTLED, Recovery
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.timeline import Timeline
from moiety.agent.monitor.process_finder import Found
from moiety.agent.monitor.telemetry_history import TelemetryHistory
from moiety.agent.monitor.usage_monitor import UsageMonitor
from moiety.agent.system.container_files import container_of
from moiety.agent.system.users import name_of
from moiety.arbiter.events import Tick
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.snapshots import TenantView
from moiety.config.values import Visible
from moiety.devices.interface import Devices, Usage
from moiety.devices.telemetry import Telemetry, reasons_of
from moiety.wire.codec import Counters

SENSORS_S: Final = 2.0
"""Seconds that a command waits for a reading of the sensors."""


async def _nothing_waits() -> None:
    pass


class Reports:
    """What commands and Prometheus see of one agent."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        arbiter: Arbiter,
        gpus: Gpus,
        clients: Mapping[int, Client],
        recovery: Recovery,
        timeline: Timeline,
        journal: Journal,
        devices: Devices,
        arena: Arena | None = None,
        monitor: UsageMonitor | None = None,
        telemetry: TelemetryHistory | None = None,
        catch_up: Callable[[], Awaitable[None]] = _nothing_waits,
    ) -> None:
        """`catch_up` takes in what programs have said by now."""
        self.catch_up = catch_up
        self.telemetry = telemetry
        self.arena = arena
        self.monitor = monitor
        self.journal = journal
        self._runtime = runtime
        self._arbiter = arbiter
        self._gpus = gpus
        self._clients = clients
        self._recovery = recovery
        self._timeline = timeline
        self._devices = devices
        self._reading: asyncio.Future[dict[int, Usage]] | None = None
        """What NVML is being asked of the GPUs' use: one question, however long it hangs."""
        self._looking: asyncio.Future[Found] | None = None
        """What NVML is being asked, for all commands that want it now."""

    @property
    def is_settled(self) -> bool:
        """Whether the agent has ended waiting for processes of the last one."""
        return self._recovery.is_settled

    async def usages(self) -> dict[int, Usage]:
        """Return what NVML says now, by GPU; without the GPUs for which it does not answer.

        The sensors are read again, too, unless that was just done.
        """
        loop = asyncio.get_running_loop()
        if self.telemetry:
            fresh: asyncio.Future[None] = loop.create_future()
            self.telemetry.refresh(partial(_end, fresh))
            with contextlib.suppress(TimeoutError):  # NVML hangs; the last reading is shown
                await asyncio.wait_for(fresh, SENSORS_S)
        if self._reading is None or self._reading.done():
            self._reading = loop.run_in_executor(None, self._read, list(self._gpus))
        found: dict[int, Usage] = {}
        with contextlib.suppress(TimeoutError):  # NVML hangs; the rest is still true
            found = await asyncio.wait_for(asyncio.shield(self._reading), SENSORS_S)
        await self.catch_up()  # what is said of the GPUs is as new as this
        return found

    def _read(self, gpus: list[int]) -> dict[int, Usage]:
        """Ask NVML how these GPUs are used, beside the loop."""
        found: dict[int, Usage] = {}
        for gpu in gpus:
            try:
                found[gpu] = self._devices.usage(gpu)
            except Exception as error:  # NVML raises anything; the other GPUs' values are true
                self._runtime.log.warning("gpu_unreadable", gpu=gpu, error=str(error))
        return found

    def driver_version(self) -> str:
        """Return the driver's version; empty if NVML does not answer."""
        with contextlib.suppress(Exception):  # NVML raises anything; "unknown" is shown
            return self._devices.driver_version
        return ""

    def timeline_page(self, asked: TimelineRequest, viewer: int, visible: Visible) -> Recorded:
        """Return a page of the timeline as a user sees it."""
        now_s = self._runtime.now()
        page = recorded(self._timeline, self._arbiter, self._gpus, now_s, asked)
        return recorded_for(page, self._timeline.owners, viewer, visible)

    def watched(self, asked: WatchRequest) -> Watched:
        """Return what the usage monitor sees; raises BadArgument."""
        return watched(self.monitor, asked, self._runtime.now())

    def notes(self) -> list[str]:
        """Return the sentences of `moiety status`."""
        return notes(self.monitor, self._clients, self._runtime.now())

    def gpu_rows(self, usages: dict[int, Usage]) -> list[GpuRow]:
        """One row for each GPU; `usages` are what NVML just said."""
        now_s = self._runtime.now()
        rows = []
        for view in self._arbiter.gpus():
            gpu = self._gpus[view.gpu]
            usage = usages.get(view.gpu)
            rows.append(
                GpuRow(
                    gpu=view.gpu,
                    uuid=gpu.device.uuid,
                    name=gpu.device.name,
                    total_bytes=gpu.device.total_bytes,
                    used_bytes=max(0, usage.used_bytes - view.spare_bytes) if usage else None,
                    capacity_bytes=view.capacity_bytes,
                    resident_bytes=view.resident_bytes,
                    allocated_bytes=view.allocated_bytes,
                    residue_bytes=view.residue_bytes,
                    free_bytes=view.free_bytes,
                    utilisation=usage.utilisation if usage else None,
                    holders=list(view.holders),
                    waiting=list(view.waiting),
                    suspended=list(view.suspended),
                    lost=gpu.lost,
                    drained=gpu.is_drained,
                    errors={xid: max(0.0, now_s - at_s) for xid, at_s in gpu.errors.items()},
                    **self._sensors(view.gpu),
                )
            )
        return rows

    def _sensors(self, gpu: int) -> dict[str, Any]:
        """Return the fields of a row that the sensors fill."""
        if self.telemetry is None:
            return {}
        found = self.telemetry.latest.get(gpu, Telemetry())
        return {
            "sensors": found,
            "slowed_by": reasons_of(found.clock_events),
            "history": self.telemetry.history(gpu),
        }

    def process_rows(self) -> list[ProcessRow]:
        """One row for each process on each GPU, and one for each process that has none yet.

        A process that outlived the last agent and is not back has what the driver says.
        """
        self._runtime.feed(Tick())  # what was received is counted up to now
        now_s = self._runtime.now()
        orphans = self._recovery.orphans
        missing = orphans.by_number()
        rows = []
        for view in self._arbiter.tenants():
            client = self._clients.get(view.tenant)
            if client is not None:
                rows += self._rows_of(client, view, now_s)
            elif orphan := missing.get(view.tenant):
                rows += orphan_rows(orphan, view, is_stopped=orphans.is_stopped(orphan))
        return rows

    def arena_used_bytes(self) -> int:
        """Return what all processes have in host memory: the sum of the rows' `host_bytes`."""
        shown = ((self._clients.get(view.tenant), view) for view in self._arbiter.tenants())
        return sum(sum(host_bytes(view, c.counters()).values()) for c, view in shown if c)

    async def outside(self) -> tuple[list[ProcessRow], str]:
        """Return a row for each process that uses a GPU without moiety, and what is not known."""
        if self.monitor is None or self.monitor.finder.is_blind:
            return [], BLIND
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_future()
            self.monitor.find(self._found)
        try:
            found = await asyncio.wait_for(asyncio.shield(self._looking), SENSORS_S)
        except TimeoutError:
            return [], "NVML does not answer, so programs outside moiety are not known"
        pids = {client.pid for client in self._clients.values()}
        return outside_rows(found, lambda pid: pid in pids or self._recovery.outlived(pid))

    def _found(self, found: Found) -> None:
        if self._looking and not self._looking.done():
            self._looking.set_result(found)
        self._looking = None

    def _rows_of(self, client: Client, view: TenantView, now_s: float) -> list[ProcessRow]:
        counters = client.counters()
        waiting_s = None if view.waiting_since_s is None else now_s - view.waiting_since_s
        monitor = self.monitor
        if monitor:
            monitor.see_work(client, view, now_s)  # its own look may be ten seconds old
        idle_s = monitor.idleness.for_s(view.tenant, now_s) if monitor else 0.0
        cost = monitor.costs.get(view.tenant) if monitor else None
        origin = monitor.who(client.pid) if monitor else None
        rows = []
        gpus: list[int | None] = [*sorted(view.gpus)] or [None]
        on_host = host_bytes(view, counters)
        for gpu in gpus:
            on = view.gpus[gpu] if gpu is not None else None
            rows.append(
                ProcessRow(
                    tenant=view.tenant,
                    pid=client.pid,
                    program=client.program,
                    workload=client.workload,
                    gpu=gpu,
                    state=_state(client, view),
                    allocated_bytes=on.allocated_bytes if on else 0,
                    resident_bytes=on.resident_bytes if on else 0,
                    residue_bytes=on.residue_bytes if on else 0,
                    limit_bytes=on.limit_bytes if on else client.share.memory_limit_bytes,
                    handoffs=view.turns,
                    held_s=view.held_s,
                    waited_s=counters.waited_ns / 1e9,
                    waiting_s=waiting_s,
                    reason=view.reason if self._recovery.is_settled else UNSETTLED,
                    pinned=client.pinned,
                    pins=dict(client.pins) if on and on.pinned_bytes else {},
                    unknown=dict(client.unknown),
                    unknown_calls=counters.unknown_calls,
                    share=client.share,
                    priority=str(client.share.priority),
                    received=view.received,
                    received_s=view.received_s,
                    handoffs_s=view.handoffs_s,
                    gang=view.gang,
                    paused=view.paused,
                    guaranteed=view.guaranteed,
                    evicted_bytes=counters.evicted_bytes,
                    restored_bytes=counters.restored_bytes,
                    zero_bytes=counters.zero_bytes,
                    host_bytes=on_host.get(gpu, 0) if gpu is not None else 0,
                    managed_bytes=on.managed_bytes if on else 0,
                    oversubscribed_bytes=on.oversubscribed_bytes if on else 0,
                    pinned_bytes=on.pinned_bytes if on else 0,
                    peak_bytes=client.peaks.get(gpu, 0) if gpu is not None else 0,
                    uid=client.uid,
                    container=container_of(client.pid),
                    idle_s=idle_s,
                    cost_s=cost.waited_s if cost else 0.0,
                    cost=str(cost) if cost else "",
                    user=name_of(client.uid),
                    pod=origin.pod if origin else "",
                    labels=client.labels,
                )
            )
        return rows


def host_bytes(view: TenantView, counters: Counters) -> dict[int, int]:
    """By GPU: the bytes of a process that are in host memory.

    Evicted bytes that are zeros need none. The process counts what it has on the host for all its
    GPUs together; of several GPUs, each has a part in proportion to what was evicted from it.
    Evicted managed bytes are all counted, because the driver does not say where they are.
    """
    away = {gpu: max(0, on.allocated_bytes - on.resident_bytes) for gpu, on in view.gpus.items()}
    paged = {gpu: min(away[gpu], on.managed_bytes) for gpu, on in view.gpus.items()}
    evicted = sum(away.values()) - sum(paged.values())
    stored = min(evicted, counters.host_bytes) if counters.host_counted else evicted
    return {
        gpu: paged[gpu] + (away[gpu] - paged[gpu]) * stored // max(1, evicted) for gpu in view.gpus
    }


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _state(client: Client, view: TenantView) -> str:
    if view.is_stopped:
        return STOPPED
    if view.is_overdue and view.state != "fenced":
        return "overdue"
    if client.connection.closed:
        return UNCONNECTED
    if view.state == "idle" and not view.gpus and not client.peaks:
        return STARTING
    return view.state
