"""Room for what the driver allocates by itself: how much can be made, and how long it is kept."""

from __future__ import annotations

from moiety.arbiter.admission.memory import Refusal, budget_bytes, promised_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.tenant import Tenant
from moiety.model.units import format_bytes

LEAST_BYTES = 2 << 20
"""The granule of GPU memory: less room is no use."""
KEPT_S = 2.0
"""How long room stays free for a driver, unless its residue is measured before."""


def reserve(
    ledger: Ledger, tenant: Tenant, gpu: int, wanted: int, free: int | None
) -> Refusal | None:
    """Keep room for the driver's own needs on a GPU, or say why there can be none.

    The driver has run out of memory, although the sums of the ledger may call some of it free.
    """
    balance = ledger.balance(gpu)
    missing = wanted - (free or 0)
    if missing <= 0:
        return None
    others = [(t, o) for t, o in ledger.on(gpu) if t is not tenant]
    movable = sum(max(0, o.charged_bytes - t.staying_bytes(o)) for t, o in others)
    least = min(LEAST_BYTES, missing)
    asked = f"the driver needs room for itself on GPU {gpu}"
    if movable < least:
        return "capacity", (
            f"{asked}, and {format_bytes(movable)} of others could leave; free some memory of this "
            f"program, or end others (moiety ps)"
        )
    promised = promised_bytes(ledger, gpu)
    free_bytes = max(0, balance.free_bytes)
    kept = balance.needed_bytes - tenant.gpus[gpu].needed_bytes
    room = budget_bytes(ledger, gpu) - kept - free_bytes
    possible = min(missing, movable)
    for other, allocated, stays in ledger.units(gpu):
        if other in mates(tenant):
            continue
        need = allocated + promised - stays
        left = room - need
        if left < least:
            return "capacity", (
                f"{asked}, which would shut out tenant {other.number}, that has "
                f"{format_bytes(allocated)}; give it a --memory-limit"
            )
        possible = min(possible, left)
    possible -= possible % least  # a piece more would leave whole, and be taken without asking
    ledger.reserve(tenant, gpu, free_bytes + possible)
    return None


def forget(ledger: Ledger, tenant: Tenant) -> None:
    """End a tenant's driver reserve."""
    tenant.memory.needs_until_s = 0.0
    ledger.end_reserve(tenant)
