"""The state of the node as rows for `moiety status` and `moiety ps`."""

from __future__ import annotations

from moiety.agent.control.protocol import GpuRow, ProcessRow
from moiety.agent.core.client import Client
from moiety.agent.core.runtime import Node
from moiety.agent.system.container_files import container_of
from moiety.agent.system.users import name_of
from moiety.arbiter.events import Tick
from moiety.arbiter.snapshots import TenantView
from moiety.devices.interface import Usage


def gpu_rows(node: Node, usages: dict[int, Usage]) -> list[GpuRow]:
    """One row for each GPU; `usages` are what NVML just said."""
    rows = []
    for view in node.arbiter.gpus():
        gpu = node.gpus[view.gpu]
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
                lost=node.lost.get(view.gpu, ""),
                errors={
                    xid: max(0.0, node.loop.time() - at_s)
                    for xid, at_s in node.errors.get(view.gpu, {}).items()
                },
            )
        )
    return rows


def process_rows(node: Node) -> list[ProcessRow]:
    """One row for each process on each GPU, and one for each process that has none yet."""
    node.feed(Tick())  # what was received is counted up to now
    now_s = node.loop.time()
    rows = []
    for view in node.arbiter.tenants():
        client = node.clients.get(view.tenant)
        if client is not None:
            rows += _rows_of(node, client, view, now_s)
    return rows


def _rows_of(node: Node, client: Client, view: TenantView, now_s: float) -> list[ProcessRow]:
    counters = client.counters()
    waiting_s = None if view.waiting_since_s is None else now_s - view.waiting_since_s
    watching = node.watching
    idle_s = watching.idleness.for_s(view.tenant, now_s) if watching else 0.0
    cost = watching.costs.get(view.tenant) if watching else None
    origin = watching.who(client.pid) if watching else None
    rows = []
    gpus: list[int | None] = [*sorted(view.gpus)] or [None]
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
                reason=_reason(node, view),
                pinned=client.pinned,
                unknown=dict(client.unknown),
                unknown_calls=counters.unknown_calls,
                share=client.share,
                priority=str(client.share.priority),
                received=view.received,
                received_s=view.received_s,
                handoffs_s=view.handoffs_s,
                gang=view.gang,
                paused=view.paused,
                evicted_bytes=counters.evicted_bytes,
                restored_bytes=counters.restored_bytes,
                zero_bytes=counters.zero_bytes,
                managed_bytes=on.managed_bytes if on else 0,
                pinned_bytes=on.pinned_bytes if on else 0,
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


def _state(client: Client, view: TenantView) -> str:
    if view.is_stopped:
        return "stopped"
    if view.is_overdue and view.state != "fenced":
        return "overdue"
    if client.connection.closed:
        return "unconnected"
    return view.state


def _reason(node: Node, view: TenantView) -> str:
    if not node.settled:
        return "the agent waits for those who were here before it"
    return view.reason
