"""Tenants shut out by memory that became unable to leave without a request.

A call that a shim does not know pins all memory of its process, and nothing can be asked before it
happens. It stays while others fit. While another tenant waits for which there would be room
without it, the process is reported, with its call. After one more deadline it gets no lease as long
as that lasts, or is killed, as `--overdue` says. What its share keeps on the GPU is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.settings import OverduePolicy
from moiety.arbiter.state.gang import are_mates, gpus_of, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State


def look_after_pins(round_: Round) -> None:
    """Do what is due about the tenants whose memory was pinned without a request."""
    found = set(_in_the_way(round_))
    for number in round_.ledger.unasked_pins:
        tenant = round_.ledger.tenants[number]
        if number in found:
            _look_after(round_, tenant)
        else:
            memory = tenant.memory
            memory.shuts_out_since_s = memory.shuts_out_due_s = 0.0
            memory.barred = False


def _in_the_way(round_: Round) -> Iterator[int]:
    """The tenants without which there would be room for one that waits, the latest pins first."""
    tenants = round_.ledger.tenants
    for number in round_.ledger.queue:
        waiting = tenants[number]
        for gpu in gpus_of(waiting):
            balance = round_.balances[gpu]
            gap = balance.firm_bytes + round_.needs_bytes(waiting, gpu) - balance.capacity_bytes
            pinned: list[int] = []
            for other in reversed(round_.ledger.unasked_pins):
                beyond = 0 if are_mates(tenants[other], waiting) else _beyond(tenants[other], gpu)
                if gap > 0 and beyond > 0:
                    gap -= beyond
                    pinned.append(other)
            if gap <= 0:
                yield from pinned


def _beyond(tenant: Tenant, gpu: int) -> int:
    """Bytes of a tenant that stay on a GPU without a request, or a promise."""
    on = tenant.gpus.get(gpu)
    return on.charged_bytes - min(on.charged_bytes, tenant.kept_bytes(on)) if on else 0


def _look_after(round_: Round, tenant: Tenant) -> None:
    memory, settings, now_s = tenant.memory, round_.settings, round_.now_s
    if not memory.shuts_out_due_s:
        memory.shuts_out_since_s = now_s
        memory.shuts_out_due_s = now_s + settings.revoke_deadline_s
    elif now_s >= memory.shuts_out_due_s:
        waited_s = now_s - memory.shuts_out_since_s
        is_told = waited_s > 1.5 * settings.revoke_deadline_s
        memory.barred = is_told and settings.overdue is not OverduePolicy.REPORT
        kill = is_told and settings.overdue is OverduePolicy.KILL
        round_.out.append(do.Overdue(tenant.number, waited_s, do.PINNED, kill=kill))
        memory.shuts_out_due_s = now_s + settings.revoke_deadline_s
    round_.wake_at(memory.shuts_out_due_s)
    if memory.barred and tenant.state is State.HOLDING:
        kept_until_s = max(mate.lease.kept_until_s for mate in mates(tenant))
        if now_s >= kept_until_s:
            round_.revoke(tenant)
        else:
            round_.wake_at(kept_until_s)
