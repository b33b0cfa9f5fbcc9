"""Memory that a process says to have already: what of it is believed.

A process that lost its agent, or its connection, reports what it has. What its agent knows it had
is counted as it says. So is what the last agent recorded, or the driver confirms: its limits may
have become smaller meanwhile. All beyond that is a request for memory, and is decided like one.
"""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.admission.memory import Refusal, refuse_bytes
from moiety.arbiter.admission.pins import refuse_pin
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.model.units import format_bytes

_PINS = "memory that was pinned before"


def proven(tenant: Tenant, event: ev.Attach) -> tuple[int, int]:
    """The allocated and the pinned bytes that a process has without another decision."""
    known = tenant.gpus.get(event.gpu)
    own = (known.allocated_bytes, known.pinned_bytes) if known else (0, 0)
    if event.proven_bytes is None and tenant.drain.unproven:
        return own
    recorded = event.proven_bytes, event.proven_pinned_bytes
    said = event.allocated_bytes, event.pinned_bytes
    allocated, pinned = (
        max(has, says if proof is None else proof)
        for has, says, proof in zip(own, said, recorded, strict=True)
    )
    return allocated, pinned


def impossible(ledger: Ledger, event: ev.Attach, known: Residency | None) -> Refusal | None:
    """Why no process can have what this one says; None: one can.

    More than the GPU has only what is managed, by its limit, or by an earlier one.
    """
    total = ledger.specs[event.gpu].total_bytes
    had = known.allocated_bytes if known else 0
    most = max(total, event.limit_bytes, event.proven_bytes or 0, had)
    if event.allocated_bytes <= most and event.allocated_bytes - event.managed_bytes <= total:
        return None
    return "limit", (
        f"it says that it has {format_bytes(event.allocated_bytes)} on GPU {event.gpu}, "
        f"which has {format_bytes(total)}"
    )


def has_rest(on: Residency, event: ev.Attach) -> bool:
    """Whether a process says to have more than `on`, which is counted."""
    return event.allocated_bytes > on.allocated_bytes or _pinned_bytes(event) > on.pinned_bytes


def refuse_rest(ledger: Ledger, tenant: Tenant, event: ev.Attach) -> Refusal | None:
    """Why the rest of what a process reports is not counted; None: it is."""
    on = tenant.gpus[event.gpu]
    more = event.allocated_bytes - on.allocated_bytes
    pinned = _pinned_bytes(event)
    managed = more <= event.managed_bytes - on.managed_bytes
    stays = pinned > on.pinned_bytes
    if more > 0 and (
        no := refuse_bytes(ledger, tenant, event.gpu, more, pinned=stays, managed=managed)
    ):
        code, why = no
        return code, f"no agent knows of the {format_bytes(more)} that it says to have: {why}"
    rest = min(pinned, on.allocated_bytes) - on.pinned_bytes
    if rest <= 0:
        return None
    return refuse_pin(ledger, tenant, ev.PinRequest(tenant.number, event.gpu, 0, rest, _PINS))


def _pinned_bytes(event: ev.Attach) -> int:
    return min(event.allocated_bytes, event.pinned_bytes)
