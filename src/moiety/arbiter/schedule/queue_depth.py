"""How much unfinished work a holder may have submitted, so that it can give way quickly.

Only holders submit, so only holders are told, and only when their bound changes. A hand-off by a
holder that fell idle, the frequent kind, changes no bound (docs/decisions/0006).
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.gang import are_mates, gpus_of, mates
from moiety.arbiter.state.tenant import Tenant


def pace(round_: Round) -> None:
    """Tell every holder whose bound is no longer the one it was told."""
    for tenant in round_.holding:
        queue_s = _bound_s(round_, tenant)
        if queue_s != tenant.lease.queue_s:
            tenant.lease.queue_s = queue_s
            round_.out.append(do.SetQueueDepth(tenant.number, queue_s))


def _bound_s(round_: Round, tenant: Tenant) -> float:
    """0, no bound, for a tenant that is alone; small for one that may be revoked soon."""
    gpus = gpus_of(tenant)
    if not gpus:
        return 0.0
    settings = round_.settings
    gives_way_s = round_.gives_way_s.get(tenant.number)
    if gives_way_s is not None:
        soon_s = gives_way_s - settings.queue_lead_s
        if round_.now_s >= soon_s:
            return settings.queue_waited_s
        round_.wake_at(soon_s)
        return settings.queue_shared_s
    if round_.has_rivals and not tenant.share.latency:
        others = (t for gpu in gpus for t, _ in round_.ledger.on(gpu) if t.share.latency)
        if any(not are_mates(other, tenant) for other in others):  # whose requests come at any time
            return settings.queue_waited_s
    is_alone = all(
        round_.balances[gpu].tenants == sum(gpu in mate.gpus for mate in mates(tenant))
        for gpu in gpus
    )
    is_limited = any(mate.share.gpu_limit < 1 for mate in mates(tenant))
    if is_alone and not is_limited:  # a limit interrupts even a tenant that is alone
        return 0.0
    return settings.queue_shared_s
