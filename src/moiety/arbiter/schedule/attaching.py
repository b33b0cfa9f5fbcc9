"""Holders that attach one more GPU, or their first: where others come first, they wait like others.

A lease is granted for the GPUs that a tenant has then. It holds for another GPU as well if no
tenant there comes first. Otherwise the tenant gives its lease back first, and attaches the GPU
once it has: so no order of messages wins a place before those who wait.
"""

from __future__ import annotations

from typing import Final

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.rivals import must_alternate
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.throttle import postpone
from moiety.arbiter.state.gang import are_mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State

_UNDER_WAY: Final = frozenset({State.RESTORING, State.HOLDING, State.DRAINING})
_WAITED_FOR: Final = _UNDER_WAY | {State.QUEUED, State.UNDRAINABLE}


def must_wait(ledger: Ledger, tenant: Tenant, gpu: int) -> bool:
    """Whether a tenant has to give its lease back before it attaches a GPU."""
    if tenant.state not in _UNDER_WAY or tenant.drain.silent:
        return False
    if tenant.usage.paused and not tenant.gpus:
        return True
    return any(_comes_first(other, tenant) for other, _ in ledger.on(gpu))


def end_uncovered(round_: Round) -> None:
    """End the leases of tenants that wait for a GPU which they attach."""
    for tenant in round_.attaching:
        if tenant.state is State.RESTORING:
            postpone(round_, tenant)
        elif tenant.state is State.HOLDING:
            if round_.now_s >= tenant.lease.kept_until_s:
                round_.revoke(tenant)
            else:
                round_.wake_at(tenant.lease.kept_until_s)


def _comes_first(other: Tenant, tenant: Tenant) -> bool:
    if other is tenant or are_mates(other, tenant) or other.state not in _WAITED_FOR:
        return False
    if must_alternate(other, tenant):
        return True
    waits = other.state is State.QUEUED or other.state is State.RESTORING
    return waits and other.usage.rank >= tenant.usage.rank
