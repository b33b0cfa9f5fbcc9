"""Handlers of bytes: what a process asks for, frees, pins, moves, and counts."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.admission.driver_reserve import forget, reserve
from moiety.arbiter.admission.memory import refuse_bytes
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.handlers.lease import want
from moiety.arbiter.state.tenant import Request
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
    pinned = event.pinned
    if no := refuse_bytes(context.ledger, tenant, event.gpu, event.bytes, pinned=pinned):
        context.refuse(event, *no)
        return
    entry.allocated_bytes += event.bytes
    if pinned:
        entry.pinned_bytes += event.bytes
    if event.managed:
        entry.managed_bytes += event.bytes
    tenant.requests.append(
        Request(event.serial, event.gpu, event.bytes, pinned=pinned, managed=event.managed)
    )
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
    forget(tenant)  # what it was given before was not enough
    no = reserve(context.ledger, tenant, event.gpu, event.bytes, event.free_bytes)
    if no:
        context.refuse(event, *no)
        return
    request = Request(event.serial, event.gpu, 0, is_context=True, is_need=True)
    tenant.requests.append(request)
    tenant.needs_until_s = context.now_s + context.settings.revoke_deadline_s


def on_free(context: Context, event: ev.Free) -> None:
    """Release bytes, or return them to the credit of the process."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant is None or entry is None:
        return
    if event.allowed:
        context.credit.freed(event)
        return
    pending = tenant.pending_bytes(event.gpu)
    entry.allocated_bytes = max(pending, entry.allocated_bytes - event.bytes)
    if event.pinned:
        entry.pinned_bytes = max(0, entry.pinned_bytes - event.bytes)
    if event.managed:
        entry.managed_bytes = max(0, entry.managed_bytes - event.bytes)
    entry.charged_bytes = max(0, entry.charged_bytes - event.resident_bytes)
    if event.gpu in tenant.counted:
        tenant.counted[event.gpu] -= event.resident_bytes
    tenant.trim(event.gpu)


def on_credit_used(context: Context, event: ev.CreditUsed) -> None:
    """Count bytes that a process took from its credit."""
    context.credit.took(event)


def on_credit_returned(context: Context, event: ev.CreditReturned) -> None:
    """Release the rest of a credit."""
    context.credit.returned(event)


def on_pin_bytes(context: Context, event: ev.PinBytes) -> None:
    """Pin bytes that others can see."""
    if entry := context.ledger.entry(event.tenant, event.gpu):
        most = entry.allocated_bytes - entry.managed_bytes
        entry.pinned_bytes = min(most, entry.pinned_bytes + event.bytes)


def on_charge_transferred(context: Context, event: ev.ChargeTransferred) -> None:
    """Charge a process with bytes of another that is gone."""
    if entry := context.ledger.entry(event.tenant, event.gpu):
        entry.allocated_bytes += event.bytes
        entry.pinned_bytes += event.bytes
        entry.inherited_bytes += event.bytes
        entry.charged_bytes += event.bytes


def on_charge_released(context: Context, event: ev.ChargeReleased) -> None:
    """End the charge for bytes of another, or a part of it."""
    if entry := context.ledger.entry(event.tenant, event.gpu):
        gone = min(event.bytes, entry.inherited_bytes)
        entry.inherited_bytes -= gone
        entry.allocated_bytes -= gone
        entry.pinned_bytes = max(0, entry.pinned_bytes - gone)
        entry.charged_bytes = max(0, entry.charged_bytes - gone)


def on_pinned(context: Context, event: ev.Pinned) -> None:
    """Pin everything that a process has; it loses its credit."""
    if tenant := context.ledger.tenants.get(event.tenant):
        tenant.pinned = True
        tenant.pinned_by = event.reason
        context.credit.recall_from(tenant, context.out)


def on_measured(context: Context, event: ev.Measured) -> None:
    """Replace the expected size of a context by the measured one."""
    if entry := context.ledger.entry(event.tenant, event.gpu):
        entry.residue_bytes = event.residue_bytes
        entry.needed_bytes = 0  # what was taken of it is counted now


def on_resident(context: Context, event: ev.Resident) -> None:
    """Keep a count until the process says that it has drained."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant and entry and tenant.state in REVOKED:
        tenant.counted[event.gpu] = event.resident_bytes


def on_evicted(context: Context, event: ev.Evicted) -> None:
    """Count what left the GPU; the last step of an order ends it."""
    tenant = context.ledger.tenants.get(event.tenant)
    entry = context.ledger.entry(event.tenant, event.gpu)
    if tenant is None or entry is None or not entry.orders:
        return
    if tenant.restored:  # said before it read the order: what leaves now needs new room
        tenant.room_given = tenant.restored = False
    tenant.evicted_bytes += event.bytes
    entry.charged_bytes = max(0, entry.charged_bytes - event.bytes)
    entry.orders[0] = max(0, entry.orders[0] - event.bytes)
    if event.last:
        entry.orders.pop(0)
        # What was left of its room is void, and it gets no new one before the last order ends.
        tenant.charge(event.gpu, event.resident_bytes)
    context.answered(tenant)
    if event.failed:
        tenant.stuck_until_s = context.now_s + context.settings.revoke_deadline_s
    if tenant.has_orders:
        tenant.told_s = context.now_s
        tenant.due_s = context.now_s + context.settings.revoke_deadline_s
        tenant.look_s = context.now_s + context.settings.look_after_s


def on_restored(context: Context, event: ev.Restored) -> None:
    """Note that all that a process knows of is resident."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is not None and tenant.room_given:
        tenant.restored = True
        context.answered(tenant)
