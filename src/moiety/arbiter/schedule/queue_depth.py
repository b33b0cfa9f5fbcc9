"""How much unfinished work a holder may have submitted, so that it can give way quickly.

Only holders submit, so only holders are told, and only when their bound changes. A hand-off by a
holder that fell idle, the frequent kind, changes no bound (docs/decisions/0006).
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.gang import are_mates, gpus_of, mates
from moiety.arbiter.state.tenant import Tenant

_STEADY_S = 1.0
"""A bound is wider only after this time without a reason to give way: tenants that fall idle and
come back again and again change no bound."""


def pace(round_: Round) -> None:
    """Tell every holder whose bound is no longer the one it was told."""
    narrow = _find_narrow(round_)
    urgent = [t for t in round_.ledger.tenants.values() if t.share.latency]
    for tenant in round_.holding:
        queue_s = _bound_s(round_, tenant, urgent, narrow)
        if queue_s != tenant.lease.queue_s:
            tenant.lease.queue_s = queue_s
            round_.out.append(do.SetQueueDepth(tenant.number, queue_s))


def _bound_s(round_: Round, tenant: Tenant, urgent: list[Tenant], narrow: set[int]) -> float:
    """0, no bound, for a tenant that is alone; small for one that may be revoked soon."""
    gpus = gpus_of(tenant)
    if not gpus:
        return 0.0
    settings = round_.settings
    if not gpus.isdisjoint(narrow):
        tenant.lease.beside_from_s = round_.now_s + _STEADY_S
    gives_way_s = round_.gives_way_s.get(tenant.number)
    if gives_way_s is not None:
        soon_s = gives_way_s - settings.queue_lead_s
        if round_.now_s >= soon_s:
            return settings.queue_waited_s
        round_.wake_at(soon_s)
        return settings.queue_shared_s
    if urgent and not tenant.share.latency:
        others = (t for t in urgent if not gpus.isdisjoint(t.gpus))
        if any(not are_mates(other, tenant) for other in others):  # whose requests come at any time
            return settings.queue_waited_s
    if tenant.gang is None:
        is_alone = all(round_.balances[gpu].tenants == 1 for gpu in gpus)
        is_limited = tenant.share.gpu_limit < 1
    else:
        is_alone = all(
            round_.balances[gpu].tenants == sum(gpu in mate.gpus for mate in mates(tenant))
            for gpu in gpus
        )
        is_limited = any(mate.share.gpu_limit < 1 for mate in mates(tenant))
    if is_limited:  # a limit interrupts even a tenant that is alone
        return settings.queue_shared_s
    if is_alone:
        return 0.0
    if round_.now_s >= tenant.lease.beside_from_s:
        return settings.queue_beside_s
    if gpus.isdisjoint(narrow):
        round_.wake_at(tenant.lease.beside_from_s)
    return settings.queue_shared_s


def _find_narrow(round_: Round) -> set[int]:
    """The GPUs on which a holder may have to give way: by turns, by windows, or to a class."""
    fair_share = round_.fair_share
    narrow = fair_share.crowded | {gpu for gpu, _ in fair_share.uneven}
    ranks: dict[int, int] = {}
    for tenant in round_.ledger.tenants.values():
        rank = tenant.usage.class_rank
        for gpu in tenant.gpus:
            if tenant.share.latency or ranks.setdefault(gpu, rank) != rank:
                narrow.add(gpu)
    return narrow | {gpu for gpu, balance in round_.balances.items() if balance.is_crowded}
