"""Suspended tenants: their turns end, and all of their memory that can leave does at once.

Others may fit without it. It is evicted all the same: the tenant is away for long, and the next
program finds the room. What the host has no room for stays on the GPU until there is some.
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.host_room import Plan, ask_content, short_bytes, zero_bytes
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.throttle import postpone
from moiety.arbiter.schedule.victims import order
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING, Cause, State


def end_turns(round_: Round) -> None:
    """End the turns of suspended tenants: holders are revoked, and those that wait wait no more."""
    for number in round_.ledger.suspended:
        tenant = round_.ledger.tenants[number]
        if tenant.holds:
            kept_until_s = max(mate.lease.kept_until_s for mate in mates(tenant))
            if round_.now_s >= kept_until_s:
                round_.revoke(tenant)
            else:
                round_.wake_at(kept_until_s)
        if tenant.state is State.RESTORING:
            postpone(round_, tenant)
        if tenant.state is State.IDLE or tenant.state is State.QUEUED:
            assert tenant.suspension is not None
            tenant.suspension.wants = tenant.state is State.QUEUED
            round_.transition(tenant, Cause.SUSPENDED)


def evict_suspended(round_: Round) -> None:
    """Evict what suspended tenants still have on their GPUs, as far as the host has room."""
    suspended = [round_.ledger.tenants[number] for number in round_.ledger.suspended]
    plan = [
        (tenant, gpu, amount)
        for tenant in suspended
        if tenant.state is State.SUSPENDED
        for gpu, on in tenant.gpus.items()
        if (amount := tenant.evictable_bytes(on)) > 0
    ]
    if plan and (short := short_bytes(round_, plan)):
        if ask_content(round_, plan):
            return  # it is known soon what of it is zeros
        plan = _cut(plan, short)
    for tenant, gpu, amount in plan:
        order(round_, tenant, gpu, amount)
    for tenant in suspended:
        _report(round_, tenant)


def _cut(plan: Plan, short: int) -> Plan:
    """The same plan without data for which the host has no room; the last one stays first."""
    kept: Plan = []
    for tenant, gpu, amount in reversed(plan):
        less = min(short, amount - min(amount, zero_bytes(tenant.gpus[gpu])))
        short -= less
        if amount > less:
            kept.append((tenant, gpu, amount - less))
    return kept[::-1]


def _report(round_: Round, tenant: Tenant) -> None:
    """Report once that all of a tenant that can leave has left."""
    assert tenant.suspension is not None
    drain = tenant.drain
    if tenant.suspension.is_told or tenant.state not in RESTING or tenant.has_orders:
        return
    if drain.stuck_until_s > 0 or drain.detained or drain.due_s:
        return  # it is tried again
    tenant.suspension.is_told = True
    staying = sum(on.charged_bytes for on in tenant.gpus.values())
    round_.out.append(do.Suspended(tenant.number, staying))
