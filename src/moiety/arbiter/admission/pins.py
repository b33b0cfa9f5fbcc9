"""Refusals of pins: memory must not become unmovable where others would never hold again.

Each tenant was admitted because it can hold beside all bytes that cannot leave. A pin makes more
bytes such bytes, so it is decided like an allocation of them. Bytes that the tenant's share keeps
on the GPU (`--memory`) are counted as such already, so their pins are never refused.
"""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.admission.memory import Refusal, budget_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.model.units import format_bytes


def refuse_pin(
    ledger: Ledger, tenant: Tenant, event: ev.PinRequest, *, reach: bool = True
) -> Refusal | None:
    """Why what a tenant has allocated must not become unmovable; None if it may.

    `reach`: what others freed just now is theirs.
    """
    for gpu in tenant.gpus if event.gpu == ev.EVERY_GPU else (event.gpu,):
        more = _more_bytes(tenant, tenant.gpus[gpu], event)
        if more > 0 and (no := _refuse_on(ledger, tenant, gpu, more, event.call, reach)):
            return no
    return None


def _more_bytes(tenant: Tenant, on: Residency, event: ev.PinRequest) -> int:
    """By how much the bytes grow that are reserved for a tenant on one GPU."""
    if event.gpu == ev.EVERY_GPU:
        return on.need_bytes - tenant.promised_bytes(on)
    pinned = min(on.allocated_bytes - on.managed_bytes, on.pinned_bytes + event.bytes)
    return pinned - tenant.promised_bytes(on)


def _refuse_on(
    ledger: Ledger, tenant: Tenant, gpu: int, more: int, call: str, reach: bool
) -> Refusal | None:
    """Why `more` bytes of a tenant must not stay on a GPU; None if they may."""
    promised = sum(t.promised_bytes(on) for t, on in ledger.on(gpu))
    budget = max(budget_bytes(ledger, gpu), ledger.balance(gpu).capacity_bytes)
    for other, allocated, stays in ledger.units(gpu, reach=reach):
        if other in mates(tenant):
            continue
        if budget - promised + stays - max(allocated, stays) < more:
            return "capacity", (
                f"{call} would keep {format_bytes(more)} on GPU {gpu} for good, and shut out "
                f"tenant {other.number}, which has {format_bytes(allocated)}; give this program "
                f"--memory, or either a --memory-limit"
            )
    return None
