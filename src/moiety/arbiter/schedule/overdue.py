"""Tenants that do not carry out an order in time: why, and what is done about them.

A drain can wait for something that stands at the closed gate: a kernel for a flag that another
thread sets with a copy, a callback for a lock, a collective operation for its other half. So a
tenant that makes no progress while a thread stands at the gate gets its lease back for a moment, a
bounded number of times (docs/decisions/0007).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import REVOKED, Cause, State

_LAST_DOUBLINGS = 2
"""A drain that was reopened in vain is given up after a wait that has doubled this often."""


def look_after(round_: Round, tenant: Tenant) -> float:
    """Do what is due about a tenant that has an order; returns when to look again.

    It may change the tenant's state: a round begins with this.
    """
    now_s = round_.now_s
    settings = round_.settings
    if tenant.drain.stopped and tenant.state is State.RESTORING:
        round_.ledger.transition(tenant, Cause.POSTPONED, now_s)
    again_s = math.inf
    if tenant.state is State.DRAINING and tenant.stands_at_gate and tenant.gang is None:
        reopens_s = _reopens_s(tenant, settings, tenant.drain.wants_since_s)
        if now_s >= reopens_s and _give_back(round_, [tenant]):
            return tenant.lease.kept_until_s
        if now_s < reopens_s:
            again_s = reopens_s
    if now_s >= tenant.drain.look_s:
        tenant.drain.look_s = now_s + settings.look_every_s
        round_.out.append(do.CheckStopped(tenant.number))
    if tenant.drain.due_s:
        if now_s >= tenant.drain.due_s:
            _report(round_, tenant)
        again_s = min(again_s, tenant.drain.due_s)
    return min(again_s, tenant.drain.look_s)


def give_back_together(round_: Round, gang: Sequence[Tenant]) -> None:
    """Reopen a draining gang if a member stands at the gate while another has not drained."""
    draining = [member for member in gang if member.state is State.DRAINING]
    since_s = [member.drain.wants_since_s for member in draining if member.stands_at_gate]
    since_s += [member.lease.waits_since_s for member in gang if member.state is State.QUEUED]
    if not since_s:
        return
    reopens_s = max(_reopens_s(m, round_.settings, min(since_s)) for m in draining)
    if round_.now_s < reopens_s:
        round_.wake_at(reopens_s)
    elif _give_back(round_, draining):
        round_.wake_at(draining[0].lease.kept_until_s)


def _reopens_s(tenant: Tenant, settings: Settings, wants_since_s: float) -> float:
    """When a drain with a thread at the gate is reopened."""
    over = tenant.drain.gave_up or tenant.drain.reopens >= settings.reopen_most
    doublings = _LAST_DOUBLINGS if over else tenant.drain.reopens
    stands_since_s = max(tenant.since_s, wants_since_s)
    return stands_since_s + settings.reopen_after_s * 2.0**doublings


def _give_back(round_: Round, tenants: list[Tenant]) -> bool:
    """Open the leases again, for a moment or until the next try; False: there is no next try."""
    now_s = round_.now_s
    settings = round_.settings
    if all(t.drain.reopens < settings.reopen_most and not t.drain.gave_up for t in tenants):
        cause = Cause.REOPENED
        until_s = now_s + settings.reopen_for_s
    elif settings.overdue is OverduePolicy.REPORT:
        cause = Cause.GAVE_UP
        after_s = settings.retry_min_s * 2 ** min(max(t.drain.gave_up for t in tenants), 20)
        until_s = now_s + min(after_s, settings.retry_max_s)
    else:
        return False
    for tenant in tenants:
        waited_s = now_s - tenant.drain.told_s
        is_late = not tenant.drain.answered
        round_.ledger.transition(tenant, cause, now_s)
        tenant.epoch = tenant.next_epoch
        tenant.drain.due_s = 0.0
        tenant.drain.silent = False
        tenant.memory.counted.clear()
        round_.ledger.touch(tenant)
        tenant.lease.kept_until_s = tenant.lease.turn_ends_s = tenant.lease.window_ends_s = until_s
        round_.out.append(do.Grant(tenant.number, tenant.epoch))
        if cause is Cause.REOPENED:
            tenant.drain.reopens += 1
            continue
        tenant.drain.gave_up += 1
        tenant.drain.stuck_until_s = until_s
        round_.ledger.touch(tenant)
        if is_late:
            round_.out.append(do.Overdue(tenant.number, waited_s, tenant.state.value))
    return True


def _report(round_: Round, tenant: Tenant) -> None:
    """Report a tenant as overdue, and do what the policy says."""
    policy = round_.settings.overdue
    if tenant.state is State.DRAINING and policy is OverduePolicy.FENCE:
        round_.ledger.transition(tenant, Cause.FENCED, round_.now_s)
    waited_s = round_.now_s - tenant.drain.told_s
    kill = policy is OverduePolicy.KILL
    round_.out.append(do.Overdue(tenant.number, waited_s, tenant.state.value, kill=kill))
    if tenant.state is State.RESTORING:  # others go first; its deadline begins when it is chosen
        round_.ledger.transition(tenant, Cause.POSTPONED, round_.now_s)
        tenant.drain.due_s = 0.0
        return
    tenant.drain.silent = tenant.drain.stopped or tenant.state in REVOKED or tenant.has_orders
    round_.ledger.touch(tenant)
    tenant.drain.due_s = round_.now_s + round_.settings.revoke_deadline_s
