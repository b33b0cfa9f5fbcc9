"""Handlers of everything that is set from outside: shares, limits, settings, and lost GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moiety.arbiter import events as ev
from moiety.arbiter.handlers.context import Context
from moiety.arbiter.settings import GpuSpec
from moiety.arbiter.state.promise import Guarantees, Promise
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import STAYING, State

ENDLESS_BYTES: Final = 1 << 60
"""A size that no request reaches: a lost GPU has room for everything."""


def on_share_set(context: Context, event: ev.ShareSet) -> None:
    """Give a process another share: its part, its limits and the turn it has begun follow."""
    tenant = context.ledger.tenants.get(event.tenant)
    if tenant is None:
        return
    is_lowered = event.share.rank < tenant.usage.class_rank
    share = event.share
    if tenant.suspension is not None:
        tenant.suspension.share, share = share, share.without_promises
    context.fair_share.promise(tenant, share)
    context.credit.recall_from(tenant, context.out)
    for gpu in tenant.gpus:
        capacity = context.ledger.specs[gpu].capacity_bytes
        context.ledger.limit(tenant, gpu, event.share.limit_bytes(capacity))
    _set_turn(context, tenant)
    if is_lowered and tenant.state in STAYING:
        # It took this turn by its old class: others of the new one need not wait for its end.
        tenant.lease.is_guest = True
        tenant.lease.turn_ends_s = context.now_s


def _set_turn(context: Context, tenant: Tenant) -> None:
    """A turn that has begun is as long as turns are from now on."""
    if tenant.state is State.HOLDING:
        tenant.lease.turn_ends_s = tenant.since_s + context.quantum.turn_s(tenant)


def on_user_limits_set(context: Context, event: ev.UserLimitsSet) -> None:
    """Replace the limits of users; credit was given by the old ones."""
    ledger = context.ledger
    before, before_parts = ledger.user_limits, ledger.user_parts
    ledger.user_limits, ledger.user_parts = event.limits, event.parts
    for tenant in ledger.tenants.values():
        uid = tenant.uid
        had = before.get(uid), before_parts.get(uid)
        if (event.limits.get(uid), event.parts.get(uid)) != had:
            context.credit.recall_from(tenant, context.out)


def on_guarantees_set(context: Context, event: ev.GuaranteesSet) -> None:
    """Replace what owners are guaranteed: parts follow at once."""
    context.ledger.guarantees = Guarantees(event.parts, event.groups)
    context.ledger.members_changed = True


def on_promise_set(context: Context, event: ev.PromiseSet) -> None:
    """Keep room on a GPU for those who were promised it and have not come."""
    context.ledger.promises[event.gpu] = Promise(event.memory_bytes, event.residue_bytes)


def on_settings_set(context: Context, event: ev.SettingsSet) -> None:
    """Decide by other settings; the size of the arena stays what it is."""
    context.settings = replace(event.settings, arena_bytes=context.ledger.arena_bytes)
    context.quantum.settings = context.settings
    context.ledger.set_overcommit(event.settings.overcommit)
    for tenant in context.ledger.tenants.values():
        _set_turn(context, tenant)


def on_arena_set(context: Context, event: ev.ArenaSet) -> None:
    """Note that there is more, or less, host memory for evicted bytes."""
    context.ledger.set_arena(event.arena_bytes, event.reason)


def on_gpu_lost(context: Context, event: ev.GpuLost) -> None:
    """Let no tenant wait for room on a lost GPU."""
    context.ledger.specs[event.gpu] = GpuSpec(event.gpu, ENDLESS_BYTES, ENDLESS_BYTES)
    context.ledger.lost.add(event.gpu)


def on_division_set(context: Context, event: ev.DivisionSet) -> None:
    """Note with which others a tenant takes turns where all fit."""
    if tenant := context.ledger.tenants.get(event.tenant):
        tenant.usage.apart = event.apart
        context.ledger.parts_changed = True


def on_tick(context: Context, event: ev.Tick) -> None:
    """Time has passed: the round that follows does what is due."""
    del context, event


def on_settled(context: Context, event: ev.Settled) -> None:
    """Begin to decide: postponed requests are handled next."""
    del event
    context.is_settled = True
