"""Which tenants give up bytes on a full GPU: resting, then draining, then the end of the queue.

Suspended tenants are first among the resting ones, then who has been idle longest.

A holder is never a victim: it loses its lease first (preempt.py, in the order of `Round.by_turn`).
Which chunks of a victim leave is decided by its shim (native/shim/swap/victim.c). With overcommit,
no data leaves that the host has no room for: then host_room.py gives up a tenant instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.evictions import ask
from moiety.arbiter.schedule.host_room import Plan, ask_content, give_up, short_bytes, zero_bytes
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING, State


def order_evictions(round_: Round) -> bool:
    """Evict bytes that restoring and growing tenants still lack, from the tenants that run last.

    Returns whether a tenant was given up, because the host has no room for what would leave.
    """
    plan = _plan(round_)
    was_given_up = False
    if round_.ledger.checks_host_room:
        while plan and (short := short_bytes(round_, plan)):
            if ask_content(round_, plan):
                return was_given_up  # nothing leaves before it is known
            plan = _plan(round_, zeros_first=True)
            if not short_bytes(round_, plan):
                break
            if not give_up(round_, plan, short):
                return was_given_up  # nothing leaves
            was_given_up = True
            plan = _plan(round_)
    for victim, gpu, amount in plan:
        if victim.state is not State.DRAINING:
            order(round_, victim, gpu, amount)
    return was_given_up


def _plan(round_: Round, *, zeros_first: bool = False) -> Plan:
    """What should leave; `zeros_first`: zeros of any victim before data of the first."""
    plan: Plan = []
    for gpu, balance in round_.balances.items():
        short = -balance.free_bytes - balance.leaving_bytes
        for tenant in round_.coming:
            if on := tenant.gpus.get(gpu):
                short += on.need_bytes - on.charged_bytes
        for tenant in round_.asking:
            if tenant.is_growing and not tenant.blocked_by and (on := tenant.gpus.get(gpu)):
                short += on.need_bytes - on.charged_bytes
        if short > 0:
            victims = list(_victims(round_, gpu))
            if zeros_first:
                zeros = [(v, min(zero_bytes(v.gpus[gpu]), amount)) for v, amount in victims]
                rest = [(v, most - z) for (v, most), (_, z) in zip(victims, zeros, strict=True)]
                victims = zeros + rest
            for victim, most in victims:
                if (amount := min(short, most)) > 0:
                    plan.append((victim, gpu, amount))
                    short -= amount
    return plan


def _victims(round_: Round, gpu: int) -> Iterator[tuple[Tenant, int]]:
    """Suspended, idle and draining tenants, then the queue from its end; what each can evict.

    A draining tenant will be the last of the queue, so its bytes are waited for, and not taken from
    a tenant whose turn comes sooner.
    """
    tenants = round_.ledger.tenants
    out = [t for t, _ in round_.ledger.on(gpu) if t.state in RESTING]
    out.sort(key=lambda t: (t.state is State.IDLE, t.since_s))
    queue = [tenants[number] for number in reversed(round_.ledger.queue)]
    for victim in out + round_.draining + queue:
        if on := victim.gpus.get(gpu):
            yield victim, victim.evictable_bytes(on)


def order(round_: Round, victim: Tenant, gpu: int, amount: int) -> None:
    """Tell a tenant to evict bytes."""
    ask(round_, victim, gpu, amount)
    round_.ledger.order(victim, gpu, amount)
    round_.out.append(do.Evict(victim.number, gpu, amount))
