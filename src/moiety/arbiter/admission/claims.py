"""Memory that a process says to have already: what of it is believed.

A process that lost its agent, or its connection, reports what it has. What its agent knows it had
is counted as it says. So is what a process says that the last agent had recorded: its limits may
have become smaller meanwhile. Anything else is a request for memory, and is decided like one.
"""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.admission.memory import Refusal, refuse_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.model.units import format_bytes


def refuse_claim(ledger: Ledger, tenant: Tenant, event: ev.Attach) -> Refusal | None:
    """Why the memory that a process reports is not counted; None: it is."""
    known = tenant.gpus.get(event.gpu)
    more = event.allocated_bytes - (known.allocated_bytes if known else 0)
    if more <= 0:
        return None
    total = ledger.specs[event.gpu].total_bytes
    if event.allocated_bytes > total:
        return "limit", (
            f"it says that it has {format_bytes(event.allocated_bytes)} on GPU {event.gpu}, "
            f"which has {format_bytes(total)}"
        )
    if not tenant.drain.unproven:
        return None
    entry = known or Residency(event.residue_bytes, event.limit_bytes)
    pinned = event.pinned_bytes > 0
    no = refuse_bytes(ledger, tenant, event.gpu, more, pinned=pinned, entry=entry)
    if no is None:
        return None
    code, why = no
    return code, f"no agent knows of the {format_bytes(more)} that it says to have: {why}"
