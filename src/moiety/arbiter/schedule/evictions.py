"""Evictions, and whether their bytes leave in time.

The deadline runs from when bytes are asked for, whatever the tenant answers, and anew once enough
of them have left. An order that ends before is given again after a wait, which doubles each time.
"""

from __future__ import annotations

from typing import Final

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.arbiter.state.residency import EvictionProgress, Residency
from moiety.arbiter.state.tenant import Tenant

_PARTS: Final = 8
"""A deadline begins anew when this part of what was asked for has left."""
_LEAST_BYTES_PER_S: Final = 16 << 20
"""It does so in any case if bytes leave at this rate."""
_LAST_DOUBLINGS: Final = 10
_LAST_PART: Final = 4
"""The last order is given when this part of the deadline is left."""


def ask(round_: Round, victim: Tenant, gpu: int, amount: int) -> None:
    """Note that a tenant is about to be told to evict bytes, and when that is overdue."""
    settings, now_s = round_.settings, round_.now_s
    on = victim.gpus[gpu]
    if not victim.has_orders:
        round_.expect(victim, settings.revoke_deadline_s)
    asked = on.eviction
    forgotten_s = 2 * settings.revoke_deadline_s + settings.turn_max_s
    if asked.fruitless and now_s - asked.ended_s <= forgotten_s:
        due_s = asked.asked_s + settings.revoke_deadline_s
        if now_s >= due_s and now_s - asked.ended_s <= settings.revoke_deadline_s:
            round_.out.append(_report(victim, asked, now_s, settings))
            return
        due_s = max(due_s, now_s + settings.revoke_deadline_s / _LAST_PART)
        victim.drain.told_s = min(victim.drain.told_s, asked.asked_s)
        victim.drain.due_s = min(victim.drain.due_s, due_s)
        round_.wake_at(victim.drain.due_s)
    elif on.orders:
        asked.amount += amount
    else:
        on.eviction = EvictionProgress(now_s, amount, on.charged_bytes)


def has_left(on: Residency, rest: int, now_s: float, settings: Settings) -> bool:
    """Whether enough has left for another deadline, which then begins; `rest`: of the order."""
    asked = on.eviction
    enough = min(-(-asked.amount // _PARTS), _LEAST_BYTES_PER_S * settings.revoke_deadline_s)
    if rest > 0 and asked.before - on.charged_bytes < max(1, enough):
        return False
    asked.asked_s, asked.before, asked.fruitless = now_s, on.charged_bytes, 0
    return True


def end_in_vain(
    tenant: Tenant, on: Residency, now_s: float, settings: Settings, *, failed: bool
) -> do.Overdue | None:
    """Note that an order has ended without its bytes; returns the report if that is overdue.

    Until the next order the tenant is no victim.
    """
    asked, deadline_s = on.eviction, settings.revoke_deadline_s
    doublings = min(asked.fruitless, _LAST_DOUBLINGS)
    wait_s = deadline_s if failed else min(deadline_s, settings.look_after_s * 2.0**doublings)
    asked.fruitless += 1
    asked.ended_s = now_s
    due_s = asked.asked_s + deadline_s
    report = _report(tenant, asked, now_s, settings) if now_s >= due_s else None
    last_s = due_s - deadline_s / _LAST_PART
    until_s = last_s if now_s < last_s else due_s
    until_s = now_s + wait_s if report else min(now_s + wait_s, until_s)
    tenant.drain.stuck_until_s = max(tenant.drain.stuck_until_s, until_s)
    return report


def _report(
    tenant: Tenant, asked: EvictionProgress, now_s: float, settings: Settings
) -> do.Overdue:
    """Report a tenant as overdue; its next deadline begins."""
    waited_s, asked.asked_s = now_s - asked.asked_s, now_s
    kill = settings.overdue is OverduePolicy.KILL
    return do.Overdue(tenant.number, waited_s, tenant.state.value, kill=kill)
