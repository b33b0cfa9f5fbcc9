"""How much host memory each tenant's data could need at one time, so that it can be made ready."""

from __future__ import annotations

from moiety.arbiter.admission.memory import budget_bytes
from moiety.arbiter.ledger import Ledger


def needs(ledger: Ledger) -> dict[int, int]:
    """Bytes for each tenant that could need some.

    No tenant has to evict more than all tenants together have beyond the GPU's capacity. A tenant
    without allocations is expected to become as large as the largest: its first allocation may be
    the one for which the others have to leave, and then it is too late to begin.
    """
    found: dict[int, int] = {}
    for gpu in ledger.specs:
        on = list(ledger.on(gpu))
        if not on:
            continue
        largest = max(entry.allocated_bytes for _, entry in on)
        expected = sum(entry.allocated_bytes or largest for _, entry in on)
        short = max(0, expected - max(0, budget_bytes(ledger, gpu)))
        for tenant, entry in on:
            out = entry.allocated_bytes - tenant.pending_bytes(gpu) - entry.charged_bytes
            movable = entry.allocated_bytes - tenant.kept_bytes(entry) - entry.managed_bytes
            if not tenant.memory.pinned and (need := min(movable, max(short, out))) > 0:
                found[tenant.number] = found.get(tenant.number, 0) + need
    return found
