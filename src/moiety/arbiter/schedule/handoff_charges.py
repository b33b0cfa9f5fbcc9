"""What tenants are charged with where they take turns and a part of the time was promised.

A promise is a part of the time in which the GPU works for the tenants of a class, so hand-offs to
tenants with a promise are charged to none of them, and take their time from all. Were they charged
to the tenant that comes, a small promise would lose most of its time to them. Other tenants are
charged with their hand-offs: who begins again and again takes nothing from what was promised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moiety.arbiter.schedule.lags import Members
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.state.gang import are_mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State

_FREE: Final = 2.0
"""A hand-off that takes longer than the others' longest by this factor is charged beyond that."""


def charges_s(
    quantum: Quantum, gpu: int, members: Members, elapsed_s: float, now_s: float
) -> list[float]:
    """The GPU-seconds that each tenant of a class is charged with for the last `elapsed_s`."""
    found = []
    for tenant, _ in members:
        own_s = elapsed_s
        if tenant.usage.promised and tenant.state is State.RESTORING:
            free_until_s = tenant.since_s + _free_s(quantum, tenant, (t for t, _ in members))
            own_s = min(elapsed_s, max(0.0, now_s - free_until_s))
        found.append(tenant.gpus[gpu].rate * own_s)
    return found


def _free_s(quantum: Quantum, tenant: Tenant, members: Iterable[Tenant]) -> float:
    """How long a hand-off to a tenant may take before it is charged: slowness gains no time."""
    others = (quantum.handoff_s(each) for each in members if not are_mates(each, tenant))
    return _FREE * max(others, default=0.0)
