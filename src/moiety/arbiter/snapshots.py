"""Frozen pictures of the arbiter's state, for `ps` and `status`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.explain import why_late, why_suspended
from moiety.arbiter.schedule.fair_share import RECENT_S
from moiety.arbiter.state.gang import gpus_of, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import WITH_LEASE, State
from moiety.model.share import NOTHING_ASKED, Share


@dataclass(frozen=True, slots=True)
class TenantGpuView:
    """A tenant's bytes on one GPU."""

    allocated_bytes: int
    resident_bytes: int
    residue_bytes: int
    limit_bytes: int
    managed_bytes: int = 0
    oversubscribed_bytes: int = 0
    """Managed bytes that the GPU has no room for: the driver keeps as many in host memory."""
    pinned_bytes: int = 0
    """Allocated bytes that never leave the GPU."""
    allowed_bytes: int = 0
    """Its credit, which none of the other fields counts."""
    spare_bytes: int = 0
    """Bytes of the credit that it freed and that are still on the GPU."""


@dataclass(frozen=True, slots=True)
class TenantView:
    """One tenant."""

    tenant: int
    state: str
    waiting_since_s: float | None
    reason: str
    held_s: float
    turns: int
    pinned: bool = False
    asks: bool = False
    """Whether it waits for the answer to a request."""
    share: Share = NOTHING_ASKED
    received: float = 0.0
    """The part of the GPU's time that its work had over the last seconds, without hand-offs."""
    received_s: float = 0.0
    """The GPU-seconds that it had in its whole life, its hand-offs included."""
    handoffs_s: float = 0.0
    evicted_bytes: int = 0
    lag_s: float = 0.0
    is_stopped: bool = False
    """Whether its process is stopped while it has an order to carry out."""
    is_overdue: bool = False
    """Whether it did not carry out an order by the deadline."""
    gang: str = ""
    """The gang with which it holds; empty: none."""
    paused: bool = False
    """Whether its limit is used up for the moment."""
    guaranteed: float = 0.0
    """The part of the GPU's time that its owner, or the owner's group, is guaranteed."""
    since_s: float = 0.0
    """When it entered its state."""
    is_suspended: bool = False
    """Whether it was told to be suspended, also while its last work still runs."""
    gpus: dict[int, TenantGpuView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU; `free_bytes` is what is neither resident nor promised."""

    gpu: int
    capacity_bytes: int
    resident_bytes: int
    allocated_bytes: int
    free_bytes: int
    residue_bytes: int
    holders: tuple[int, ...]
    waiting: tuple[int, ...]
    spare_bytes: int = 0
    """Part of the free ones: not used, but not given back to the driver yet."""
    suspended: tuple[int, ...] = ()


def view_tenant(ledger: Ledger, tenant: Tenant, now_s: float) -> TenantView:
    """A picture of one tenant at `now_s`."""
    held = tenant.holds or tenant.state is State.DRAINING
    waits = tenant.state in (State.QUEUED, State.RESTORING) or bool(tenant.requests)
    reason = tenant.blocked_by if waits else ""
    if tenant.state is State.RESTORING:
        lacks = any(mate.missing_bytes(gpu) for mate in mates(tenant) for gpu in mate.gpus)
        reason = "room is being made for it" if lacks else "its memory is being restored"
    if waits and (tenant.is_growing or tenant.state is State.RESTORING) and not tenant.blocked_by:
        reason = _awaited(ledger, tenant) or reason
    if tenant.suspension is not None:
        reason = why_suspended(tenant)
    if late := why_late(tenant):
        reason = f"it {late}"
    return TenantView(
        tenant=tenant.number,
        state=tenant.state.value,
        waiting_since_s=tenant.lease.waits_since_s if waits and not held else None,
        reason=reason,
        held_s=tenant.lease.held_s + (now_s - tenant.since_s if held else 0.0),
        turns=tenant.lease.turns,
        pinned=tenant.memory.pinned,
        asks=bool(tenant.requests),
        share=tenant.share,
        received=_received(tenant, now_s),
        received_s=tenant.usage.received_s,
        handoffs_s=tenant.lease.handoffs_s,
        evicted_bytes=tenant.memory.evicted_bytes,
        lag_s=tenant.lag_s,
        is_stopped=tenant.drain.stopped,
        is_overdue=tenant.drain.silent,
        gang=tenant.gang.name if tenant.gang else "",
        paused=tenant.usage.paused,
        guaranteed=ledger.guarantees.of(tenant.owner),
        since_s=tenant.since_s,
        is_suspended=tenant.suspension is not None,
        gpus={
            gpu: TenantGpuView(
                allocated_bytes=on.used_bytes,
                resident_bytes=on.charged_bytes - on.credit.left_bytes,
                residue_bytes=on.residue_bytes,
                limit_bytes=on.limit_bytes,
                managed_bytes=on.managed_bytes,
                oversubscribed_bytes=on.oversubscribed_bytes,
                pinned_bytes=on.pinned_bytes,
                allowed_bytes=on.credit.left_bytes,
                spare_bytes=on.credit.spare_bytes,
            )
            for gpu, on in tenant.gpus.items()
        },
    )


def _awaited(ledger: Ledger, tenant: Tenant) -> str:
    """Which tenant gives a GPU back for this one or its gang; empty if none has to any more."""
    gpus = gpus_of(tenant)
    for other in ledger.tenants.values():
        if other.state is State.DRAINING and not gpus.isdisjoint(other.gpus):
            why = why_late(other)
            return f"{other.label} {why}" if why else f"{other.label} is giving the GPU back"
    return ""


def _received(tenant: Tenant, now_s: float) -> float:
    """The part of a GPU that a tenant received lately, or in its whole life if that is shorter."""
    lived_s = now_s - tenant.usage.joined_s
    return tenant.usage.worked / -math.expm1(-lived_s / RECENT_S) if lived_s > 0 else 0.0


def view_gpu(ledger: Ledger, gpu: int) -> GpuView:
    """A picture of one GPU."""
    on = list(ledger.on(gpu))
    balance = ledger.balance(gpu)
    allowed = sum(e.credit.left_bytes for _, e in on)
    return GpuView(
        gpu=gpu,
        capacity_bytes=0 if gpu in ledger.lost else balance.capacity_bytes,
        resident_bytes=balance.charged_bytes - allowed,
        allocated_bytes=sum(e.used_bytes for _, e in on),
        free_bytes=0 if gpu in ledger.lost else balance.free_bytes + allowed,
        residue_bytes=balance.residue_bytes,
        holders=tuple(t.number for t, _ in on if t.state in WITH_LEASE),
        waiting=tuple(t.number for t, _ in on if t.state in (State.QUEUED, State.RESTORING)),
        spare_bytes=sum(e.credit.spare_bytes for _, e in on),
        suspended=tuple(t.number for t, _ in on if t.suspension is not None),
    )
