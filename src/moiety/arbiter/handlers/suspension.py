"""Handlers of suspension: a tenant gets no turns, and gives its promises back, until resumed."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.handlers.lease import want
from moiety.arbiter.state.suspension import Suspension
from moiety.arbiter.states import Cause, State


def on_suspend(context: Context, event: ev.Suspend) -> None:
    """Give back what a tenant was promised; the round that follows ends its turn."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None or tenant.suspension is not None:
        return
    tenant.suspension = Suspension(tenant.share)
    context.ledger.suspended[tenant.number] = None
    context.credit.recall_from(tenant, context.out)
    context.fair_share.promise(tenant, tenant.share.without_promises)


def on_resume(context: Context, event: ev.Resume) -> None:
    """Give a tenant its promises back, and a place in the queue if it wants a turn."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None or (suspension := tenant.suspension) is None:
        return
    tenant.suspension = None
    del context.ledger.suspended[tenant.number]
    if tenant.state is State.SUSPENDED:
        context.fair_share.wake(tenant)
        context.ledger.transition(tenant, Cause.RESUMED, context.now_s)
        if suspension.wants:
            want(context, tenant)
    context.fair_share.promise(tenant, suspension.share)
