"""Which tenants give up bytes on a full GPU: idle, then draining ones, then the end of the queue.

A holder is never a victim: it loses its lease first (preempt.py, in the order of `Round.by_turn`).
Which chunks of a victim leave is decided by its shim (native/shim/swap/victim.c).
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.evictions import ask
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State


def order_evictions(round_: Round) -> None:
    """Evict bytes that restoring and growing tenants still lack, from the tenants that run last."""
    for gpu, balance in round_.balances.items():
        short = -balance.free_bytes - balance.leaving_bytes
        for tenant in round_.coming:
            if on := tenant.gpus.get(gpu):
                short += on.allocated_bytes - on.charged_bytes
        for tenant in round_.asking:
            if tenant.is_growing and not tenant.blocked_by and (on := tenant.gpus.get(gpu)):
                short += on.allocated_bytes - on.charged_bytes
        if short > 0:
            _evict(round_, gpu, short)


def _evict(round_: Round, gpu: int, short: int) -> None:
    """Evict from idle tenants, least recently used first; then from the queue, the last first.

    A draining tenant will be the last of the queue, so its bytes are waited for, and not taken from
    a tenant whose turn comes sooner.
    """
    tenants = round_.ledger.tenants
    out = [t for t, _ in round_.ledger.on(gpu) if t.state is State.IDLE]
    out.sort(key=lambda t: t.since_s)
    queue = [tenants[number] for number in reversed(round_.ledger.queue)]
    for victim in out + round_.draining + queue:
        on = victim.gpus.get(gpu)
        if on is None:
            continue
        amount = min(short, victim.evictable_bytes(on))
        if amount <= 0:
            continue
        short -= amount
        if victim.state is not State.DRAINING:
            _order(round_, victim, gpu, amount)
        if short == 0:
            return


def _order(round_: Round, victim: Tenant, gpu: int, amount: int) -> None:
    ask(round_, victim, gpu, amount)
    round_.ledger.order(victim, gpu, amount)
    round_.out.append(do.Evict(victim.number, gpu, amount))
