"""Who does not do what it was told, in time: why, and what is done about it.

A drain can wait for something that stands at the closed gate: a kernel for a flag that another
thread sets with a copy, a callback for a lock, a collective operation for its other half. So who
makes no progress while a thread stands at the gate gets its lease back for a moment, a bounded
number of times (docs/decisions/0007).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from moiety.arbiter import instructions as do
from moiety.arbiter.settings import Overdue, Settings
from moiety.arbiter.states import REVOKED, Cause, State
from moiety.arbiter.tenant import Tenant

if TYPE_CHECKING:
    from moiety.arbiter.scene import Scene

_LAST_DOUBLINGS = 2
"""of the time after which a drain is given up, when reopening it has not helped"""


def look_after(scene: Scene, tenant: Tenant) -> float:
    """Do what is due about one that was told something; returns when to look again.

    It may change the tenant's state: a round begins with this.
    """
    now_s = scene.now_s
    settings = scene.settings
    if tenant.stopped and tenant.state is State.COMING:
        scene.ledger.move(tenant, Cause.POSTPONED, now_s)
    again_s = math.inf
    if tenant.state is State.DRAINING and tenant.stands_at_gate:
        reopens_s = _reopens_s(tenant, settings)
        if now_s >= reopens_s and _give_back(scene, tenant):
            return tenant.kept_until_s
        if now_s < reopens_s:
            again_s = reopens_s
    if now_s >= tenant.look_s:
        tenant.look_s = now_s + settings.look_every_s
        scene.out.append(do.Look(tenant.number))
    if tenant.due_s:
        if now_s >= tenant.due_s:
            _report(scene, tenant)
        again_s = min(again_s, tenant.due_s)
    return min(again_s, tenant.look_s)


def why_late(tenant: Tenant) -> str:
    """What keeps a tenant from giving the GPU back, to follow its name; empty if nothing does."""
    if tenant.is_beyond:
        return "cannot be drained: its work on the GPU waits for threads that need the lease"
    if tenant.stopped:
        return "is stopped (kill -CONT lets it go on)"
    if tenant.state is State.FENCED:
        return "does not give the GPU back and is fenced"
    if tenant.state is State.DRAINING and tenant.silent:
        return "cannot be drained: its last work does not end"
    if tenant.state is State.DRAINING and tenant.gave_up:
        return "cannot be drained so far and is being tried again"
    return ""


def _reopens_s(tenant: Tenant, settings: Settings) -> float:
    """When a drain with a thread at the gate is reopened."""
    over = tenant.gave_up or tenant.reopens >= settings.reopen_most
    doublings = _LAST_DOUBLINGS if over else tenant.reopens
    stands_since_s = max(tenant.since_s, tenant.wants_since_s)
    return stands_since_s + settings.reopen_after_s * 2.0**doublings


def _give_back(scene: Scene, tenant: Tenant) -> bool:
    """Open its lease again, for a moment or until it is tried anew; False: that is over."""
    now_s = scene.now_s
    settings = scene.settings
    if tenant.reopens < settings.reopen_most and not tenant.gave_up:
        tenant.reopens += 1
        cause = Cause.REOPENED
        tenant.kept_until_s = now_s + settings.reopen_for_s
    elif settings.overdue is Overdue.REPORT:
        cause = Cause.GAVE_UP
        after_s = settings.retry_min_s * 2 ** min(tenant.gave_up, 20)
        tenant.gave_up += 1
        tenant.kept_until_s = now_s + min(after_s, settings.retry_max_s)
        tenant.stuck_until_s = tenant.kept_until_s
    else:
        return False
    waited_s = now_s - tenant.told_s
    scene.ledger.move(tenant, cause, now_s)
    tenant.epoch += 1
    tenant.due_s = 0.0
    tenant.silent = False
    tenant.counted.clear()
    tenant.turn_ends_s = tenant.window_ends_s = tenant.kept_until_s
    scene.out.append(do.Grant(tenant.number, tenant.epoch))
    if cause is Cause.GAVE_UP:
        scene.out.append(do.Overdue(tenant.number, waited_s, tenant.state.value))
    return True


def _report(scene: Scene, tenant: Tenant) -> None:
    """Say that it is late, and do what the policy says."""
    policy = scene.settings.overdue
    if tenant.state is State.DRAINING and policy is Overdue.FENCE:
        scene.ledger.move(tenant, Cause.FENCED, scene.now_s)
    waited_s = scene.now_s - tenant.told_s
    kill = policy is Overdue.KILL
    scene.out.append(do.Overdue(tenant.number, waited_s, tenant.state.value, kill=kill))
    tenant.silent = tenant.stopped or tenant.state in REVOKED or tenant.has_orders
    tenant.due_s = scene.now_s + scene.settings.revoke_deadline_s
