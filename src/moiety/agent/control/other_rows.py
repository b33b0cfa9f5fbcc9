"""Rows of `moiety ps` for processes that are no clients. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import structs

from moiety.agent.control.rows import ProcessRow
from moiety.agent.control.running_workload import RunningWorkload, as_promised
from moiety.agent.core.orphans import Orphan
from moiety.agent.monitor.process_finder import Found
from moiety.agent.system.users import name_of
from moiety.arbiter.snapshots import TenantView
from moiety.devices.process_identity import Origin
from moiety.model.format import plain
from moiety.model.share import NOTHING_ASKED, Share

NO_TENANT: Final = 0
"""The `tenant` of such a row: the numbers of tenants begin at 1."""
STARTING: Final = "starting"
"""The state of a program that was started to share the GPUs, and has not used one yet."""
OFF_GPU: Final = "off-gpu"
"""The state of a workload of which no process uses a GPU now: a shell between two programs."""
SUSPENDED: Final = "suspended"
"""The state of such a workload that is suspended."""
OUTSIDE: Final = "outside"
"""The state of a program that uses a GPU without moiety."""
STOPPED: Final = "stopped"
"""The state of a process that is stopped while it has an order to carry out, or is an orphan."""
UNCONNECTED: Final = "unconnected"
"""The state of a process that has no connection to the agent now."""
MISSING: Final = "it has not connected to the new agent yet, so its memory cannot leave the GPU"

BLIND: Final = (
    "programs outside moiety are not known: NVML's pids mean nothing in this PID namespace"
)


def workload_rows(
    workloads: Iterable[RunningWorkload],
    share_of: Callable[[RunningWorkload], Share] = as_promised,
) -> list[ProcessRow]:
    """One row for the first process of each workload that lives and has no tenant now."""
    return [
        _row(
            pid=workload.record.root_pid,
            program=plain(workload.record.name or workload.record.program),
            uid=workload.record.uid,
            user=workload.record.user or name_of(workload.record.uid),
            workload=workload.record.id,
            state=_state(workload),
            share=share_of(workload),
        )
        for workload in workloads
        if workload.root_pidfd >= 0 and not workload.clients
    ]


def _state(workload: RunningWorkload) -> str:
    if workload.record.suspended:
        return SUSPENDED
    return OFF_GPU if workload.has_used else STARTING


def orphan_rows(orphan: Orphan, view: TenantView, *, is_stopped: bool) -> list[ProcessRow]:
    """One row for each GPU of a process that outlived the last agent and is not back."""
    return [
        structs.replace(
            _row(
                pid=orphan.pid,
                program=plain(orphan.program),
                uid=orphan.known.uid,
                user=name_of(orphan.known.uid),
                workload=orphan.known.workload,
                gpu=gpu,
                state=STOPPED if is_stopped else UNCONNECTED,
                used_bytes=on.allocated_bytes,
                reason=MISSING,
            ),
            tenant=view.tenant,
            residue_bytes=on.residue_bytes,
        )
        for gpu, on in sorted(view.gpus.items())
    ]


def outside_rows(found: Found, shares: Callable[[int], bool]) -> tuple[list[ProcessRow], str]:
    """One row for each process on each GPU that does not share it, and what is not known.

    `shares` tells whether a pid is of a program that shares the GPUs.
    """
    users, origins = found
    rows = [
        _outside(origins[user.pid], gpu, user.used_bytes)
        for gpu, seen in sorted(users.items())
        for user in seen or ()
        if user.pid in origins and not shares(user.pid)
    ]
    silent = [str(gpu) for gpu, seen in sorted(users.items()) if seen is None]
    if users and not silent:
        return rows, ""
    which = f"GPU {', '.join(silent)}" if silent else "the GPUs"
    return rows, f"NVML does not say which programs use {which}"


def _outside(origin: Origin, gpu: int, used_bytes: int | None) -> ProcessRow:
    placed = origin.placement
    return _row(
        pid=origin.pid,
        program=plain(origin.command),
        uid=origin.uid,
        user=origin.user,
        gpu=gpu,
        state=OUTSIDE,
        used_bytes=used_bytes or 0,
        reason="" if used_bytes is not None else "the driver does not say how much memory it has",
        container=placed.short,
        pod=placed.pod,
    )


def _row(
    *,
    pid: int,
    program: str,
    uid: int,
    user: str,
    state: str,
    workload: str = "",
    gpu: int | None = None,
    used_bytes: int = 0,
    reason: str = "",
    share: Share = NOTHING_ASKED,
    container: str = "",
    pod: str = "",
) -> ProcessRow:
    return ProcessRow(
        tenant=NO_TENANT,
        pid=pid,
        program=program,
        workload=workload,
        gpu=gpu,
        state=state,
        allocated_bytes=used_bytes,
        resident_bytes=used_bytes,
        residue_bytes=0,
        limit_bytes=share.memory_limit_bytes,
        handoffs=0,
        held_s=0.0,
        waited_s=0.0,
        waiting_s=None,
        reason=reason,
        pinned="",
        share=share,
        priority=str(share.priority),
        uid=uid,
        user=user,
        container=container,
        pod=pod,
    )
