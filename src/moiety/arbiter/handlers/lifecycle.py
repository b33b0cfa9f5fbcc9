"""Handlers of a process' life: it says hello, joins a gang, uses a GPU, is stopped, and leaves."""

from __future__ import annotations

from dataclasses import replace

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.claims import has_rest, impossible, proven, refuse_rest
from moiety.arbiter.admission.guarantees import Promised, refuse_share
from moiety.arbiter.admission.memory import refuse_beside_all, refuse_context
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.schedule import gangs
from moiety.arbiter.schedule.attaching import must_wait
from moiety.arbiter.state.drain import Drain
from moiety.arbiter.state.freed import Freed
from moiety.arbiter.state.residency import (
    NOT_POSTED,
    CreditBalance,
    Request,
    Residency,
    TenantMemory,
)
from moiety.arbiter.state.tenant import EPOCHS, Tenant
from moiety.arbiter.state.usage import TenantUsage
from moiety.arbiter.states import REVOKED, Cause, State


def on_hello(context: Context, event: ev.Hello) -> None:
    """Make a tenant of a process; one that outlived its agent may hold a lease already."""
    _leave(context, event.tenant)
    tenant = Tenant(
        event.tenant,
        event.name,
        state=_first_state(event),
        epoch=event.epoch % EPOCHS,
        since_s=context.now_s,
        uid=event.uid,
        owner=event.owner,
        workload=event.workload,
        usage=TenantUsage(joined_s=context.now_s),
        drain=Drain(
            resumed=event.resumed or event.holding or event.epoch > 0, unproven=event.unproven
        ),
        memory=TenantMemory(pinned=event.pinned),
    )
    if tenant.state in REVOKED:
        _take_back(context, tenant)
    elif tenant.holds:
        tenant.lease.turn_ends_s = context.now_s + context.settings.turn_min_s
        tenant.usage.busy_periods.go_on(context.now_s)
    if before := context.ledger.tenants.get(event.replaces):
        _succeed(context, tenant, before)
    context.ledger.add(tenant)
    if event.pinned and event.resumed:
        context.ledger.unasked_pins[tenant.number] = None
    context.fair_share.promise(tenant, event.share)


def _take_back(context: Context, tenant: Tenant) -> None:
    """Revoke a process whose work runs without a lease, before it has reported its bytes."""
    tenant.drain.silent = tenant.state is State.FENCED
    tenant.drain.told_s = context.now_s
    tenant.drain.due_s = context.now_s + context.settings.revoke_deadline_s
    tenant.drain.look_s = context.now_s + context.settings.look_after_s
    context.out.append(do.Revoke(tenant.number, tenant.epoch))


def _succeed(context: Context, tenant: Tenant, before: Tenant) -> None:
    """Carry over the bytes of a process that reconnected; no other tenant gets them meanwhile."""
    for gpu, on in before.gpus.items():
        there = on.allocated_bytes - before.pending_bytes(gpu)
        holds = tenant.holds or tenant.state in REVOKED
        tenant.gpus[gpu] = replace(
            on,
            allocated_bytes=there,
            pinned_bytes=min(there, on.pinned_bytes),
            managed_bytes=min(there, on.managed_bytes),
            charged_bytes=there if holds else min(there, on.charged_bytes),
            needed_bytes=0,
            lag_s=0.0,
            credit=CreditBalance(asked_s=on.credit.asked_s),
            freed=Freed(),
            orders=[],
            content=None,
            content_asked=False,
            posted=NOT_POSTED,
        )
    tenant.memory.hearsay.update(before.gpus)
    tenant.lease.costs_s, tenant.lease.cost_s = before.lease.costs_s, before.lease.cost_s
    _leave(context, before.number)


def on_gang_joined(context: Context, event: ev.GangJoined) -> None:
    """Make a tenant a member of a gang. A member has no credit."""
    if tenant := context.ledger.tenants.get(event.tenant):
        context.credit.recall_from(tenant, context.out)
        gangs.enter(context.ledger, tenant, event.gang, event.size, begun=event.begun)


def on_left(context: Context, event: ev.Left) -> None:
    """Forget a tenant and everything that it had."""
    _leave(context, event.tenant)


def _leave(context: Context, number: int) -> None:
    context.drop(number)
    context.ledger.members_changed = True
    context.ledger.unasked_pins.pop(number, None)
    context.ledger.suspended.pop(number, None)
    if tenant := context.ledger.tenants.get(number):
        context.credit.forget(tenant.gpus.values())
        gangs.leave(context.ledger, tenant)
        context.ledger.end_stay(tenant, tuple(tenant.gpus), tenant.state)
        context.fair_share.leave(tenant)
        context.ledger.remove(tenant)


def on_attach(context: Context, event: ev.Attach) -> None:
    """Admit a context or refuse it; one that was admitted before is counted and never refused."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    if event.gpu not in context.ledger.specs:
        context.refuse(event, "gpu", f"GPU {event.gpu} is not managed here")
        return
    known = tenant.gpus.get(event.gpu)
    exists = event.exists or event.allocated_bytes > 0
    if known and not (event.gpu in tenant.memory.hearsay and exists):
        context.ledger.limit(tenant, event.gpu, event.limit_bytes)
        tenant.requests.append(Request(event.serial, event.gpu, 0, is_context=True))
        return
    was_admitted = exists and (known is not None or not tenant.drain.unproven)
    if not context.is_settled and not was_admitted:
        context.postponed.append(event)  # processes that outlived the last agent come back first
        return
    if not was_admitted and event.too_many:
        context.refuse(event, "capacity", event.too_many)
        return
    if not was_admitted and (no := refuse_beside_all(context.ledger, event.gpu, tenant)):
        context.refuse(event, *no)
        return
    if not was_admitted and (no := refuse_context(context.ledger, event.gpu, event.residue_bytes)):
        context.refuse(event, *no)
        return
    own = frozenset([event.tenant])
    beside = Promised(memory_bytes=context.ledger.promises[event.gpu].memory_bytes)
    if not was_admitted and (
        taken := refuse_share(context.ledger, event.gpu, tenant.share, beside, own, tenant.owner)
    ):
        context.refuse(event, "capacity", taken[0])
        return
    if not was_admitted and must_wait(context.ledger, tenant, event.gpu):
        context.uncovered.append(event)
        return
    if not _count(context, tenant, event, is_recorded=was_admitted):
        return
    if exists:
        if tenant.gang is not None and event.allocated_bytes:
            tenant.gang.is_begun = True  # no member gets memory before that
        context.out.append(do.Admitted(event.tenant, event.gpu, event.serial))
    else:
        tenant.requests.append(Request(event.serial, event.gpu, 0, is_context=True))


def _count(context: Context, tenant: Tenant, event: ev.Attach, *, is_recorded: bool) -> bool:
    """Count what a process has on a GPU; False: not all that it says, or not now."""
    ledger, known = context.ledger, tenant.gpus.get(event.gpu)
    if no := impossible(ledger, event, known):
        context.refuse(event, *no)
        return False
    ledger.members_changed = True
    all_of_it = event.allocated_bytes, event.pinned_bytes
    counted = _residency(tenant, event, known, *proven(tenant, event))
    ledger.attach(tenant, event.gpu, counted)
    tenant.memory.hearsay.discard(event.gpu)
    if not has_rest(counted, event):
        return True
    no = refuse_rest(ledger, tenant, event) if context.is_settled else None
    if no is None and context.is_settled:
        ledger.attach(tenant, event.gpu, _residency(tenant, event, known, *all_of_it))
        return True
    if known and known.allocated_bytes >= counted.allocated_bytes:
        ledger.attach(tenant, event.gpu, known)
    elif not is_recorded:
        ledger.detach(tenant, event.gpu)
    if event.gpu in tenant.gpus:
        tenant.memory.hearsay.add(event.gpu)  # it has this much at least, and says it again
    if no is None:
        context.postponed.append(event)  # others that outlived the last agent come back first
    else:
        context.refuse(event, *no)
    return False


def _residency(
    tenant: Tenant, event: ev.Attach, known: Residency | None, allocated: int, pinned: int
) -> Residency:
    """What a process reports of a GPU, with this much of it at most."""
    allocated = min(event.allocated_bytes, allocated)
    has_work = tenant.holds or tenant.state in REVOKED
    return Residency(
        residue_bytes=known.residue_bytes if known else event.residue_bytes,
        limit_bytes=event.limit_bytes,
        expected_bytes=known.expected_bytes if known else event.residue_bytes,
        allocated_bytes=allocated,
        pinned_bytes=min(allocated, event.pinned_bytes, pinned),
        managed_bytes=min(allocated, event.managed_bytes),
        # a holder may be about to map what it was admitted
        charged_bytes=allocated if has_work else min(allocated, event.resident_bytes),
        orders=known.orders if known else [],
        lag_s=known.lag_s if known else 0.0,
    )


def on_detach(context: Context, event: ev.Detach) -> None:
    """Forget what a tenant had on one GPU."""
    context.drop(event.tenant, event.gpu)
    if tenant := context.ledger.tenants.get(event.tenant):
        had_orders = tenant.has_orders
        context.ledger.members_changed = True
        tenant.memory.counted.pop(event.gpu, None)
        tenant.memory.hearsay.discard(event.gpu)
        if event.gpu in tenant.gpus:
            context.ledger.end_stay(tenant, (event.gpu,), tenant.state)
            context.credit.forget([context.ledger.detach(tenant, event.gpu)])
        tenant.requests = [r for r in tenant.requests if r.gpu != event.gpu]
        if had_orders and not tenant.has_orders:
            context.answered(tenant)


def _first_state(event: ev.Hello) -> State:
    """The state of a process that says hello: only one that outlived its agent may hold a lease."""
    if not event.holding:
        return State.IDLE
    if event.fenced:
        return State.FENCED
    return State.DRAINING if event.doubted else State.HOLDING


def on_stop_checked(context: Context, event: ev.StopChecked) -> None:
    """Note whether a late process is stopped; while it is, others do not wait for it."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None or tenant.drain.stopped == event.stopped:
        return
    if event.stopped and not tenant.drain.due_s:
        return  # it has answered meanwhile
    tenant.drain.stopped = tenant.drain.silent = event.stopped
    context.ledger.touch(tenant)
    if event.stopped and tenant.state is State.DRAINING:
        context.ledger.transition(tenant, Cause.STOPPED, context.now_s)
    elif not event.stopped and tenant.state is State.STOPPED:
        context.ledger.transition(tenant, Cause.CONTINUED, context.now_s)
