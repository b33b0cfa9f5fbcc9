"""Handlers of pins: memory that cannot leave the GPU from now on, or can again."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.pins import refuse_pin
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.state.tenant import Tenant


def on_pin_request(context: Context, event: ev.PinRequest) -> None:
    """Reserve the place of what is to stay on the GPU, or refuse it."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    if not context.is_settled:
        context.postponed.append(event)
        return
    if event.gpu != ev.EVERY_GPU and event.gpu not in tenant.gpus:
        context.refuse(event, "gpu", f"GPU {event.gpu} was not attached")
        return
    if no := refuse_pin(context.ledger, tenant, event):
        context.refuse(event, *no)
        return
    if event.gpu == ev.EVERY_GPU:
        _pin_all(context, tenant, event.call)
        _allow(context, tenant)
    else:
        tenant.memory.pinned_by = event.call
        context.ledger.pin(tenant, event.gpu, event.bytes)
    context.out.append(do.Admitted(event.tenant, event.gpu, event.serial))


def on_unpin(context: Context, event: ev.Unpin) -> None:
    """Let bytes leave again, or all but the bytes that were pinned one by one."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    if event.gpu == ev.EVERY_GPU:
        tenant.memory.pinned = False
        _allow(context, tenant)
        context.ledger.touch(tenant)
    elif event.gpu in tenant.gpus:
        context.ledger.pin(tenant, event.gpu, -event.bytes)
    if not tenant.memory.pinned and not any(on.pinned_bytes for on in tenant.gpus.values()):
        tenant.memory.pinned_by = ""


def on_pinned(context: Context, event: ev.Pinned) -> None:
    """Pin everything that a process has, for it happened already."""
    if tenant := context.ledger.tenants.get(event.tenant):
        if not tenant.memory.pinned:
            context.ledger.unasked_pins[tenant.number] = None
        _pin_all(context, tenant, event.reason)


def _allow(context: Context, tenant: Tenant) -> None:
    """What a tenant has pinned now, it asked for: nothing is done about it."""
    context.ledger.unasked_pins.pop(tenant.number, None)
    tenant.memory.barred = False
    tenant.memory.shuts_out_since_s = tenant.memory.shuts_out_due_s = 0.0


def _pin_all(context: Context, tenant: Tenant, call: str) -> None:
    """Pin everything that a process has; it loses its credit."""
    tenant.memory.pinned = True
    tenant.memory.pinned_by = call
    context.ledger.touch(tenant)
    context.credit.recall_from(tenant, context.out)
