"""Managed memory beyond a GPU: how much of it the driver keeps in host memory."""

from __future__ import annotations

from collections.abc import Iterable

from moiety.arbiter.state.gang import are_mates
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant


def oversubscribed_bytes(
    tenant: Tenant, own: Residency, room: int, on_gpu: Iterable[tuple[Tenant, Residency]]
) -> int:
    """Managed bytes of a tenant that do not fit into the `room` of a GPU in its turn.

    Not to be had is what other tenants were promised or have pinned, and all that its gang has.
    """
    for other, on in on_gpu:
        if other is not tenant:
            room -= on.need_bytes if are_mates(tenant, other) else other.promised_bytes(on)
    return max(0, min(own.managed_bytes, own.allocated_bytes - max(0, room)))
