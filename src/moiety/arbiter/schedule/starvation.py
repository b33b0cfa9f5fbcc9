"""Starvation: a tenant that has waited too long goes next, although others are further behind.

Where the whole of a GPU is promised, a tenant with no request, or a small one, falls behind slowly:
by lags alone it would wait for dozens of turns before its first, as if it hung. So a tenant that
has waited while each tenant of its class could have come once goes next, unless it has had its part
already. That brings turns forward and adds none: the next one is due by its lag. And on each GPU
such turns together take no more than the part that is left to tenants without a request anyway. So
programs that start again and again cannot live on their first turns at the cost of promises.
"""

from __future__ import annotations

from collections.abc import Iterable

from moiety.arbiter.schedule.parts import LEFT_OVER
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.time_limits import EXACT_S
from moiety.arbiter.state.gang import gpus_of, mates
from moiety.arbiter.state.tenant import Tenant


def find_overdue(round_: Round, waiting: Iterable[Tenant]) -> set[int]:
    """The starved tenants; `waiting` are the first member of each gang, and tenants without one."""
    first: dict[int, Tenant] = {}
    for tenant in waiting:
        gpus = gpus_of(tenant)
        if tenant.lag_s < -EXACT_S or any(mate.usage.paused for mate in mates(tenant)):
            continue
        for gpu in gpus:
            other = first.get(gpu)
            if other is None or _goes_before(tenant, other):
                first[gpu] = tenant
    found = set()
    for tenant in first.values():
        gpus = gpus_of(tenant)
        if tenant.number in found or any(first.get(gpu) is not tenant for gpu in gpus):
            continue
        since_s = tenant.lease.waits_since_s + round_.fair_share.once_round_s(tenant)
        from_s = max([since_s, *(round_.fair_share.forward_from_s.get(gpu, 0.0) for gpu in gpus)])
        if round_.now_s >= from_s:
            found.add(tenant.number)
        else:
            round_.wake_at(from_s)
    return found


def bring_forward(round_: Round, tenant: Tenant) -> None:
    """Note that a starved tenant goes next: on its GPUs no other one does for a while."""
    quantum = round_.quantum
    costs_s = quantum.turn_s(tenant) + quantum.handoff_s(tenant)
    if tenant.lease.turns == 0:  # its cost is not known: assume that of the dearest queued tenant
        dearest_s = max(quantum.handoff_s(round_.ledger.tenants[n]) for n in round_.ledger.queue)
        costs_s = max(costs_s, quantum.least_s(dearest_s) + dearest_s)
    for gpu in gpus_of(tenant):
        round_.fair_share.forward_from_s[gpu] = round_.now_s + costs_s / LEFT_OVER


def _goes_before(one: Tenant, other: Tenant) -> bool:
    return (-one.usage.rank, one.lease.waits_since_s) < (
        -other.usage.rank,
        other.lease.waits_since_s,
    )
