"""Handlers of bytes: what a process asks for, frees, moves, and counts."""

from __future__ import annotations

from dataclasses import replace

from moiety.arbiter import events as ev
from moiety.arbiter.admission.driver_reserve import forget, reserve
from moiety.arbiter.admission.memory import refuse_bytes
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.handlers.lease import want
from moiety.arbiter.schedule.evictions import end_in_vain, has_left
from moiety.arbiter.state.residency import Content, Request, Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import REVOKED


def on_alloc_request(context: Context, event: ev.AllocRequest) -> None:
    """Admit bytes or refuse them; the answer comes once there is room."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    if not context.is_settled:
        context.postponed.append(event)
        return
    entry = tenant.gpus.get(event.gpu)
    if entry is None:
        context.refuse(event, "gpu", f"GPU {event.gpu} was not attached")
        return
    pinned, managed = event.pinned, event.managed
    if no := refuse_bytes(
        context.ledger, tenant, event.gpu, event.bytes, pinned=pinned, managed=managed
    ):
        context.refuse(event, *no)
        return
    request = Request(event.serial, event.gpu, event.bytes, pinned=pinned, managed=managed)
    entry.freed.use(event.bytes)
    context.ledger.admit(tenant, request)
    want(context, tenant)


def on_driver_oom(context: Context, event: ev.DriverOom) -> None:
    """Have room made for the driver itself, or refuse it."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    if not context.is_settled:
        context.postponed.append(event)
        return
    if event.gpu not in tenant.gpus:
        context.refuse(event, "gpu", f"GPU {event.gpu} was not attached")
        return
    forget(context.ledger, tenant)  # what it was given before was not enough
    no = reserve(context.ledger, tenant, event.gpu, event.bytes, event.free_bytes)
    if no:
        context.refuse(event, *no)
        return
    request = Request(event.serial, event.gpu, 0, is_context=True, is_need=True)
    tenant.requests.append(request)
    tenant.memory.needs_until_s = context.now_s + context.settings.revoke_deadline_s


def on_free(context: Context, event: ev.Free) -> None:
    """Release bytes, or return them to the credit of the process."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant is None or entry is None:
        return
    before = entry.allocated_bytes
    if event.allowed:
        entry.freed.add(context.now_s, min(event.bytes, before))
        context.credit.freed(event)
        return
    context.ledger.release(
        tenant,
        event.gpu,
        event.bytes,
        event.resident_bytes,
        pinned=event.pinned,
        managed=event.managed,
    )
    entry.freed.add(context.now_s, before - entry.allocated_bytes)


def on_credit_used(context: Context, event: ev.CreditUsed) -> None:
    """Count bytes that a process took from its credit."""
    if entry := context.ledger.entry(event.tenant, event.gpu):
        entry.freed.use(event.bytes)
    context.credit.took(event)


def on_credit_returned(context: Context, event: ev.CreditReturned) -> None:
    """Release the rest of a credit."""
    context.credit.returned(event)


def on_charge_transferred(context: Context, event: ev.ChargeTransferred) -> None:
    """Charge a process with bytes of another that is gone.

    How many they are is the word of one of the two. What the user may not have, or what would shut
    others out, was never admitted to the other process, and is not believed of this one.
    """
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None or (on := tenant.gpus.get(event.gpu)) is None:
        return
    entry = replace(on, limit_bytes=on.allocated_bytes + event.bytes)
    ledger, more = context.ledger, event.bytes
    if refuse_bytes(ledger, tenant, event.gpu, more, pinned=True, entry=entry) is None:
        ledger.inherit(tenant, event.gpu, more)


def on_charge_released(context: Context, event: ev.ChargeReleased) -> None:
    """End the charge for bytes of another, or a part of it."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is not None and event.gpu in tenant.gpus:
        context.ledger.disown(tenant, event.gpu, event.bytes)


def on_measured(context: Context, event: ev.Measured) -> None:
    """Replace the expected size of a context by the measured one."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is not None and event.gpu in tenant.gpus:
        context.ledger.measure(tenant, event.gpu, event.residue_bytes)


def on_resident(context: Context, event: ev.Resident) -> None:
    """Keep a count until the process says that it has drained."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant and entry and tenant.state in REVOKED:
        tenant.memory.counted[event.gpu] = event.resident_bytes


def on_evicted(context: Context, event: ev.Evicted) -> None:
    """Count what left the GPU; the last step of an order ends it."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant is None or entry is None or not entry.orders:
        return
    if tenant.memory.restored:  # said before it read the order: what leaves now needs new room
        tenant.memory.room_given = tenant.memory.restored = False
    rest = entry.orders[0] - event.bytes
    context.ledger.evict(tenant, event.gpu, event.bytes, event.resident_bytes, last=event.last)
    if not has_left(entry, rest, context.now_s, context.settings):
        if event.last:
            _end_in_vain(context, tenant, entry, failed=event.failed)
        return  # too little has left: its deadline stays
    context.answered(tenant)
    if event.failed:
        tenant.drain.stuck_until_s = context.now_s + context.settings.revoke_deadline_s
        context.ledger.touch(tenant)
    if tenant.has_orders:
        tenant.drain.told_s = context.now_s
        tenant.drain.due_s = context.now_s + context.settings.revoke_deadline_s
        tenant.drain.look_s = context.now_s + context.settings.look_after_s


def on_content_reply(context: Context, event: ev.ContentReply) -> None:
    """Note what of a process' bytes is zeros, and what is in host memory."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant is None or entry is None or not entry.content_asked:
        return
    content = Content(event.zero_bytes, event.host_bytes)
    context.ledger.count_content(tenant, event.gpu, content)
    context.answered(tenant)


def _end_in_vain(context: Context, tenant: Tenant, on: Residency, *, failed: bool) -> None:
    late = end_in_vain(tenant, on, context.now_s, context.settings, failed=failed)
    if late is not None:
        context.out.append(late)
    if not tenant.has_orders:
        context.answered(tenant)
    context.ledger.touch(tenant)


def on_restored(context: Context, event: ev.Restored) -> None:
    """Note that all that a process knows of is resident."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is not None and tenant.memory.room_given:
        tenant.memory.restored = True
        context.answered(tenant)
