"""Handlers of a lease: a process asks for one, drains, falls idle, and is busy again."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.state.idle_timeout import SOON
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import REVOKED, Cause, State


def on_lease_request(context: Context, event: ev.LeaseRequest) -> None:
    """Note that a thread stands at the gate; one that crossed the grant counts as well."""
    if tenant := context.ledger.tenants.get(event.tenant):
        if tenant.holds:
            tenant.drain.wants_again = True  # it may have crossed the grant, or not: better twice
        want(context, tenant)


def want(context: Context, tenant: Tenant) -> None:
    """Put a tenant into the queue, or note that it wants its lease again once it has drained."""
    _end_silence(context, tenant)
    if tenant.state is State.IDLE:
        rested_s = context.now_s - tenant.since_s
        if rested_s >= context.settings.idle_min_s:
            tenant.usage.busy_periods.end(context.now_s)
            tenant.usage.busy_periods.begin(context.now_s, holding=False, rested_s=rested_s)
        context.fair_share.wake(tenant)
        context.ledger.transition(tenant, Cause.WANTED, context.now_s)
    elif tenant.state is State.SUSPENDED and tenant.suspension is not None:
        tenant.suspension.wants = True
    elif tenant.state in REVOKED and not tenant.drain.wants_again:
        tenant.drain.wants_again = True
        tenant.drain.wants_since_s = context.now_s


def on_drained(context: Context, event: ev.Drained) -> None:
    """End a drain: the tenant's counts are valid now. A member of a gang waits for the others."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    if tenant.state not in REVOKED or event.epoch != tenant.epoch:
        tenant.memory.counted.clear()
        return  # the lease was reopened meanwhile, so the counts are not valid any more
    if event.gpu in tenant.gpus:
        tenant.memory.counted[event.gpu] = event.resident_bytes
    context.answered(tenant)
    if tenant.gang is not None and tenant.state is not State.FENCED:
        if tenant.state is State.STOPPED:
            context.ledger.transition(tenant, Cause.CONTINUED, context.now_s)
        tenant.drain.answered = True  # its bytes leave, and count, once its whole gang has
        return
    context.ledger.count(tenant)
    tenant.drain.reopens = tenant.drain.gave_up = 0
    again = tenant.stands_at_gate
    context.ledger.transition(
        tenant, Cause.DRAINED_WANTING if again else Cause.DRAINED, context.now_s
    )


def on_idle(context: Context, event: ev.Idle) -> None:
    """Note since when a watched holder has submitted nothing."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant and tenant.holds and tenant.epoch == event.epoch:
        tenant.usage.silent_since_s = context.now_s - tenant.usage.watched_s
        tenant.usage.watched_s = 0.0


def on_busy(context: Context, event: ev.Busy) -> None:
    """Note that a holder submits again."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant and tenant.state is State.HOLDING and tenant.epoch == event.epoch:
        _end_silence(context, tenant)


def _end_silence(context: Context, tenant: Tenant) -> None:
    """Remember how long a tenant was silent that submits again, or is about to."""
    if tenant.usage.silent_since_s is not None:
        length_s = context.now_s - tenant.usage.silent_since_s
        tenant.usage.silent_since_s = None
        if length_s >= context.settings.idle_min_s:
            tenant.usage.idle_periods.add(length_s)
            tenant.usage.busy_periods.end(context.now_s - length_s)
            tenant.usage.busy_periods.begin(context.now_s, holding=tenant.state is State.HOLDING)
        elif length_s >= SOON * context.settings.idle_min_s:
            tenant.usage.idle_periods.end_row()
