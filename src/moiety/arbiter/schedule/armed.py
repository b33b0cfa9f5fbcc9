"""What happens to a lease at the next message of a tenant, where that is certain already.

The agent has such transitions carried out before it decides (docs/decisions/0059). Each is what
`handle` decides when the message comes between its two times, whatever else the message says, if
nothing happens before. Nothing here changes anything. There are two kinds:

- A tenant that drains, where another waits only for that: the other's lease is granted
  (early_grants.py). No time plays a part. The tenant that drains may ask for its next lease before:
  it is noted, and changes nothing of that until the arbiter's next look (`Armed.asks_until_s`).
- An idle tenant that wants its lease, beside one holder that must not hold with it and gives way:
  the holder's lease is revoked. Nothing else is under way on the node, nothing has to be moved, and
  which of them goes first cannot change by time alone. The other then waits only for that drain,
  so what follows is certain, too (`Armed.then`).
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
from moiety.arbiter.states import State

_CALM = frozenset({State.IDLE, State.HOLDING})
_MEANWHILE_S = 0.05
"""A drain that takes longer may be reopened for who asks, or be overdue."""


@dataclass(frozen=True, slots=True)
class Armed:
    """One transition: a message of `source` grants, or revokes, the lease of `target`."""

    source: int
    target: int
    epoch: int
    """The epoch of `target`'s lease: the next one if it is granted, the present if revoked."""
    drained_epoch: int | None
    """`source` says that it has drained this lease; None: it asks for a lease."""
    not_before_s: float = -math.inf
    not_after_s: float = math.inf
    asks_until_s: float = field(default=-math.inf, compare=False)
    """Before then `source`, which drains, may ask for its next lease first."""
    then: Armed | None = None
    """What is certain once this happened, until something else happens."""

    @property
    def grants(self) -> bool:
        """Whether the lease is granted; else it is revoked."""
        return self.drained_epoch is not None


def find(context: Context, early: EarlyGrants, deadline_s: float | None) -> Iterator[Armed]:
    """All transitions that are certain until something else happens."""
    if not context.is_settled:
        return
    not_after_s = math.inf if deadline_s is None else deadline_s
    yield from _after_drains(context, early, not_after_s)
    if _is_calm(context):
        for holder in context.ledger.tenants.values():
            if holder.state is State.HOLDING and _is_here(holder):
                yield from _before(context, holder, not_after_s)


def _after_drains(context: Context, early: EarlyGrants, not_after_s: float) -> Iterator[Armed]:
    for drains, following in early.noted():
        if len(following) == 1 and drains.state is State.DRAINING and not drains.requests:
            (tenant,) = following
            asks_until_s = min(not_after_s, drains.drain.told_s + _MEANWHILE_S)
            yield Armed(
                drains.number,
                tenant.number,
                tenant.next_epoch,
                drains.epoch,
                asks_until_s=asks_until_s if _is_calm(context, drains, tenant) else -math.inf,
            )


def _is_calm(context: Context, *beside: Tenant) -> bool:
    """Whether no tenant waits, moves memory, drains, asks, or sits out, and no class is limited.

    A lease changes hands between the tenants `beside`: that is as it should be.
    """
    ledger, fair_share = context.ledger, context.fair_share
    return (
        not (ledger.queue or ledger.gangs or ledger.lost or ledger.checks_host_room)
        and not (context.postponed or context.uncovered or context.credit.given)
        and not (context.visits.under_way or context.visits.rests_s)
        and not (fair_share.uneven or fair_share.sitters or fair_share.crowded)
        and fair_share.class_budgets.are_kept
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
        and tenant.share.gpu_limit >= 1
        and not (tenant.usage.apart or tenant.usage.paused or tenant.usage.sits_out)
    )


def _is_here(tenant: Tenant) -> bool:
    """Whether all of a tenant's memory is on its GPUs."""
    return all(on.charged_bytes >= on.allocated_bytes for on in tenant.gpus.values())


def _before(context: Context, holder: Tenant, not_after_s: float) -> Iterator[Armed]:
    """The holder gives way to each of these when it asks."""
    ledger = context.ledger
    beside = {
        tenant.number: tenant
        for gpu in holder.gpus
        for tenant, _ in ledger.on(gpu)
        if tenant is not holder
    }
    for tenant in beside.values():
        if tenant.state is State.IDLE and _is_here(tenant) and _has_only(ledger, tenant, holder):
            from_s = _gives_way_s(context, holder, tenant)
            if from_s < not_after_s:
                then = Armed(
                    holder.number,
                    tenant.number,
                    tenant.next_epoch,
                    holder.epoch,
                    asks_until_s=not_after_s,
                )
                yield Armed(
                    tenant.number,
                    holder.number,
                    holder.epoch,
                    None,
                    from_s,
                    not_after_s,
                    then=then,
                )


def _has_only(ledger: Ledger, tenant: Tenant, holder: Tenant) -> bool:
    """Whether `holder` is the only holder on the GPUs of a tenant, which fits beside all else."""
    for gpu, on in tenant.gpus.items():
        if any(other.holds for other, _ in ledger.on(gpu) if other is not holder):
            return False
        balance = ledger.balance(gpu)
        brings_bytes = movable_bytes(tenant, on)
        if balance.capacity_bytes - balance.staying_bytes < brings_bytes:
            return False
    return True


def _gives_way_s(context: Context, holder: Tenant, tenant: Tenant) -> float:
    """From when on a holder gives way to a tenant that asks; infinite: it may not."""
    above = tenant.usage.class_rank - holder.usage.class_rank
    latency = tenant.share.latency != holder.share.latency
    if not (above or latency) or not must_alternate(holder, tenant):
        return math.inf  # both hold together
    kept_s = holder.lease.kept_until_s
    if above > 0:
        return kept_s
    if holder.usage.silent_since_s is None:
        return math.inf
    return max(kept_s, holder.usage.silent_since_s + context.settings.idle_free_s)
