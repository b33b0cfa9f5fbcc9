"""What happens to a lease at the next messages of tenants, where that is certain already.

The agent has such transitions carried out before it decides (docs/decisions/0059). Each is what
`handle` decides when the message comes between its two times, whatever else the message says, if
nothing happens before. Nothing here changes anything. There are three kinds:

- A tenant that drains, where another waits only for that: the other's lease is granted
  (early_grants.py), until the arbiter's next look: then a drain may be overdue. The tenant that
  drains may ask for its next lease before: it is noted, and changes nothing of that for a while
  (`Armed.asks_until_s`). A drain that comes later than that may be reopened for who asked.
- An idle tenant that wants its lease, beside one holder that must not hold with it and gives way:
  the holder's lease is revoked. Nothing else is under way on the node, nothing has to be moved, and
  which of them goes first cannot change by time alone.
- A holder that says that it is silent, where one other waits for just that: its lease is revoked.

What follows is certain, too, as long as each message finds the node as calm as the one before it
left it (`Armed.then`): the tenant that was revoked drains, and the other gets its lease. Where the
one that drained is of a higher class, it takes the lease back when it asks again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from moiety.arbiter.handlers.context import Context
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.early_grants import EarlyGrants
from moiety.arbiter.schedule.rivals import movable_bytes, must_alternate
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING, State

_CALM = RESTING | {State.HOLDING}
_MEANWHILE_S = 0.05
"""A drain that takes longer may be reopened for who asks, or be overdue."""
_AHEAD_S = 0.1
"""No revoke that follows others is armed for longer, even if the arbiter looks no earlier."""


Holders = dict[int, list[Tenant]]
"""The tenants that hold each GPU."""


@dataclass(frozen=True, slots=True)
class Armed:
    """One transition: a message of `source` grants, or revokes, the lease of `target`."""

    source: int
    target: int
    epoch: int
    """The epoch of `target`'s lease: the next one if it is granted, the present if revoked."""
    drained_epoch: int | None
    """`source` says that it has drained this lease; None: it says something else."""
    not_before_s: float = -math.inf
    not_after_s: float = math.inf
    asks_until_s: float = field(default=-math.inf, compare=False)
    """Before then `source`, which drains, may ask for its next lease first."""
    then: Armed | None = None
    """What is certain once this happened, until something else happens."""
    silent_epoch: int | None = None
    """`source` says that it is silent under this lease; None: it drains, or asks for a lease."""

    @property
    def grants(self) -> bool:
        """Whether the lease is granted; else it is revoked."""
        return self.drained_epoch is not None


def find(context: Context, early: EarlyGrants, deadline_s: float | None) -> Iterator[Armed]:
    """All transitions that are certain until something else happens."""
    if not context.is_settled:
        return
    not_after_s = math.inf if deadline_s is None else deadline_s
    holders = _find_holders(context.ledger)
    yield from _after_drains(context, early, holders, not_after_s)
    if context.ledger.queue:
        yield from _after_silences(context, holders, not_after_s)
    elif _is_calm(context):
        for holder in context.ledger.tenants.values():
            if holder.state is State.HOLDING and _is_here(holder):
                yield from _before(context, holders, holder, not_after_s)


def _find_holders(ledger: Ledger) -> Holders:
    holders: Holders = {}
    for tenant in ledger.tenants.values():
        if tenant.holds:
            for gpu in tenant.gpus:
                holders.setdefault(gpu, []).append(tenant)
    return holders


def _after_drains(
    context: Context, early: EarlyGrants, holders: Holders, not_after_s: float
) -> Iterator[Armed]:
    for drains, following in early.noted():
        if len(following) == 1 and drains.state is State.DRAINING and not drains.requests:
            (tenant,) = following
            is_calm = _is_calm(context, drains, tenant)
            goes_on = is_calm and not drains.drain.wants_again
            stays_calm = goes_on and _is_here(drains) and _has_room(context.ledger, drains)
            asks_until_s = min(not_after_s, drains.drain.told_s + _MEANWHILE_S)
            yield Armed(
                drains.number,
                tenant.number,
                tenant.next_epoch,
                drains.epoch,
                not_after_s=asks_until_s if drains.drain.wants_again else not_after_s,
                asks_until_s=asks_until_s if is_calm else -math.inf,
                then=_takes_back(context, holders, drains, tenant, not_after_s)
                if stays_calm
                else None,
            )


def _after_silences(context: Context, holders: Holders, not_after_s: float) -> Iterator[Armed]:
    """The one tenant that waits gets its lease when the holder before it is silent."""
    (first, *others) = context.ledger.queue
    tenant = context.ledger.tenants[first]
    restores = tenant.memory.room_given or not _is_here(tenant)
    beside = {holder.number: holder for gpu in tenant.gpus for holder in holders.get(gpu, ())}
    if others or restores or len(beside) != 1 or not _is_calm(context, tenant):
        return
    (holder,) = beside.values()
    until_s = min(not_after_s, context.now_s + _AHEAD_S)
    is_watched = holder.usage.watched_s >= context.settings.idle_free_s
    is_silent = holder.usage.silent_since_s is not None
    if (
        holder.state is State.HOLDING
        and is_watched
        and not is_silent
        and _is_here(holder)
        and _are_apart(holder, tenant)
        and _has_room(context.ledger, tenant)
    ):
        yield Armed(
            holder.number,
            holder.number,
            holder.epoch,
            None,
            holder.lease.kept_until_s,
            not_after_s if context.fair_share.class_budgets.are_kept else until_s,
            then=_grant(context, holders, holder, tenant, not_after_s),
            silent_epoch=holder.epoch,
        )


def _grant(
    context: Context, holders: Holders, holder: Tenant, tenant: Tenant, not_after_s: float
) -> Armed:
    """What follows a revoke: `tenant` gets its lease once the holder has drained."""
    return Armed(
        holder.number,
        tenant.number,
        tenant.next_epoch,
        holder.epoch,
        not_after_s=not_after_s,
        asks_until_s=not_after_s,
        then=_takes_back(context, holders, holder, tenant, not_after_s),
    )


def _takes_back(
    context: Context, holders: Holders, drains: Tenant, tenant: Tenant, not_after_s: float
) -> Armed | None:
    """What follows such a grant: the other is idle, and takes the lease back when it asks.

    It is known for sure only of another that is of a higher class: no time plays a part there. The
    caller knows that there is room for both at once, and that the memory of both is there.
    """
    is_above = drains.usage.class_rank > tenant.usage.class_rank
    is_told = tenant.lease.queue_s == _bound_s(context, tenant)
    is_certain = is_above and is_told and must_alternate(tenant, drains)
    lasts = context.fair_share.class_budgets.last(_AHEAD_S)
    if not (is_certain and lasts and _are_alone(holders, drains, tenant)):
        return None
    until_s = min(not_after_s, context.now_s + _AHEAD_S)
    grant = Armed(
        tenant.number,
        drains.number,
        drains.next_epoch,
        tenant.next_epoch,
        asks_until_s=until_s,
    )
    return Armed(
        drains.number, tenant.number, tenant.next_epoch, None, not_after_s=until_s, then=grant
    )


def _bound_s(context: Context, tenant: Tenant) -> float:
    """The bound on unfinished work of a holder beside which a tenant of a higher class is idle.

    `tenant` was told it before, or it is told with its grant, and that is for Python to do.
    """
    others = (other for gpu in tenant.gpus for other, _ in context.ledger.on(gpu))
    is_urgent = any(other.share.latency for other in others)
    settings = context.settings
    is_soon = is_urgent and not tenant.share.latency
    return settings.queue_waited_s if is_soon else settings.queue_shared_s


def _is_calm(context: Context, *beside: Tenant) -> bool:
    """Whether no tenant waits, moves memory, drains, asks, or sits out, and no class is limited.

    A lease changes hands between the tenants `beside`: that is as it should be.
    """
    ledger, fair_share = context.ledger, context.fair_share
    return (
        all(ledger.tenants[number] in beside for number in ledger.queue)
        and not (ledger.gangs or ledger.lost or ledger.checks_host_room)
        and not (context.postponed or context.uncovered or context.credit.given)
        and not (context.visits.under_way or context.visits.rests_s)
        and not (fair_share.uneven or fair_share.sitters or fair_share.crowded)
        and (fair_share.class_budgets.are_kept or fair_share.class_budgets.last(_AHEAD_S))
        and all(
            _is_plain(tenant) and (tenant in beside or _is_at_rest(tenant))
            for tenant in ledger.tenants.values()
        )
        and all(balance.free_bytes >= 0 for balance in ledger.balances().values())
    )


def _is_at_rest(tenant: Tenant) -> bool:
    """Whether nothing is expected of a tenant."""
    return tenant.state in _CALM and not (tenant.drain.due_s or tenant.drain.wants_again)


def _is_plain(tenant: Tenant) -> bool:
    """Whether a tenant does what it was told, and only classes bind it."""
    return (
        not (tenant.requests or tenant.has_orders or tenant.is_firm or tenant.drain.stopped)
        and not (tenant.memory.barred or tenant.memory.needs_until_s)
        and tenant.memory.host_short is None
        and (tenant.suspension is None or tenant.state is State.SUSPENDED)
        and tenant.share.gpu_limit >= 1
        and not (tenant.usage.apart or tenant.usage.paused or tenant.usage.sits_out)
    )


def _is_here(tenant: Tenant) -> bool:
    """Whether all of a tenant's memory is on its GPUs."""
    return all(on.charged_bytes >= on.allocated_bytes for on in tenant.gpus.values())


def _before(
    context: Context, holders: Holders, holder: Tenant, not_after_s: float
) -> Iterator[Armed]:
    """The holder gives way to each of these when it asks."""
    beside = {
        tenant.number: tenant
        for gpu in holder.gpus
        for tenant, _ in context.ledger.on(gpu)
        if tenant is not holder
    }
    for tenant in beside.values():
        if (
            tenant.state is State.IDLE
            and _is_here(tenant)
            and _are_alone(holders, tenant, holder)
            and _has_room(context.ledger, tenant)
        ):
            from_s = _gives_way_s(context, holder, tenant)
            if from_s < not_after_s:
                yield Armed(
                    tenant.number,
                    holder.number,
                    holder.epoch,
                    None,
                    from_s,
                    not_after_s,
                    then=_grant(context, holders, holder, tenant, not_after_s),
                )


def _are_alone(holders: Holders, tenant: Tenant, other: Tenant) -> bool:
    """Whether no third tenant holds a GPU of the first one."""
    return all(
        third is tenant or third is other for gpu in tenant.gpus for third in holders.get(gpu, ())
    )


def _has_room(ledger: Ledger, tenant: Tenant) -> bool:
    """Whether a tenant fits beside all that stays on its GPUs."""
    for gpu, on in tenant.gpus.items():
        balance = ledger.balance(gpu)
        if balance.capacity_bytes - balance.staying_bytes < movable_bytes(tenant, on):
            return False
    return True


def _are_apart(holder: Tenant, tenant: Tenant) -> bool:
    """Whether classes keep two tenants from holding together."""
    above = tenant.usage.class_rank != holder.usage.class_rank
    latency = tenant.share.latency != holder.share.latency
    return (above or latency) and must_alternate(holder, tenant)


def _gives_way_s(context: Context, holder: Tenant, tenant: Tenant) -> float:
    """From when on a holder gives way to a tenant that asks; infinite: it may not."""
    if not _are_apart(holder, tenant):
        return math.inf  # both hold together
    kept_s = holder.lease.kept_until_s
    if tenant.usage.class_rank > holder.usage.class_rank:
        return kept_s
    if holder.usage.silent_since_s is None:
        return math.inf
    return max(kept_s, holder.usage.silent_since_s + context.settings.idle_free_s)
