"""Whose bytes move: evictions, room for those who come, leases once all is there, answers."""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.admission.driver_reserve import KEPT_S
from moiety.arbiter.schedule.gangs import mates
from moiety.arbiter.schedule.round import Scene
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import Cause, State


def order_evictions(scene: Scene) -> None:
    """Order out what those who come or grow still miss, from whoever runs furthest away."""
    for gpu, balance in scene.balances.items():
        short = -balance.free_bytes - balance.leaving_bytes
        for tenant in scene.coming:
            if on := tenant.gpus.get(gpu):
                short += on.allocated_bytes - on.charged_bytes
        for tenant in scene.asking:
            if tenant.is_growing and not tenant.blocked_by and (on := tenant.gpus.get(gpu)):
                short += on.allocated_bytes - on.charged_bytes
        if short > 0:
            _evict(scene, gpu, short)


def _evict(scene: Scene, gpu: int, short: int) -> None:
    """Who wants nothing goes first, least recently used first; then the queue from its end.

    Who is still draining will stand at its end, so what it has is waited for, not taken
    from somebody whose turn comes sooner.
    """
    tenants = scene.ledger.tenants
    out = [t for t, _ in scene.ledger.on(gpu) if t.state is State.IDLE]
    out.sort(key=lambda t: t.since_s)
    queue = [tenants[number] for number in reversed(scene.ledger.queue)]
    for victim in out + scene.draining + queue:
        on = victim.gpus.get(gpu)
        if on is None:
            continue
        amount = min(short, victim.evictable_bytes(on))
        if amount <= 0:
            continue
        short -= amount
        if victim.state is not State.DRAINING:
            _order(scene, victim, gpu, amount)
        if short == 0:
            return


def _order(scene: Scene, victim: Tenant, gpu: int, amount: int) -> None:
    if not victim.has_orders:
        scene.expect(victim, scene.settings.revoke_deadline_s)
    victim.gpus[gpu].orders.append(amount)
    scene.balances[gpu].leaving_bytes += amount
    scene.out.append(do.Evict(victim.number, gpu, amount))


def give_room(scene: Scene) -> None:
    """Hand what is free to those who come, in the order in which they were chosen."""
    for tenant in scene.coming:
        if tenant.has_orders:
            continue
        given = False
        for gpu in tenant.gpus:
            balance = scene.balances[gpu]
            amount = min(balance.free_bytes, tenant.missing_bytes(gpu))
            if amount > 0:
                given = True
                tenant.gpus[gpu].charged_bytes += amount
                balance.charged_bytes += amount
                tenant.coming_bytes += amount
                scene.out.append(do.RestoreBudget(tenant.number, gpu, amount))
        if given:
            tenant.room_given = True
            if not tenant.restored and not scene.misses(tenant):
                longest_s = 4 * scene.turns.move_s(tenant.coming_bytes)
                scene.expect(tenant, scene.settings.revoke_deadline_s + longest_s)


def finish_coming(scene: Scene) -> bool:
    """Grant leases to those of whom every byte is resident; whether there were any."""
    granted = False
    scene.leases.look_anew()
    for tenant in list(scene.coming):
        together = [mate for mate in mates(tenant) if not mate.holds]
        if not together or not all(_has_all(scene, mate) for mate in together):
            continue
        if drains := [other for mate in together for other in scene.drains_for(mate)]:
            if len(drains) == 1:
                scene.leases.note(tenant, drains[0])
            continue
        took_s = [scene.now_s - mate.since_s for mate in together]
        for mate in together:
            _let_in(scene, mate)
        scene.turns.moved(together, took_s)
        scene.accounts.refresh()
        for mate in together:
            _begin_turn(scene, mate)
        granted = True
    return granted


def _has_all(scene: Scene, tenant: Tenant) -> bool:
    """Whether every byte of one that comes is there, or never can be: its GPU is gone."""
    is_gone = any(gpu in scene.ledger.lost for gpu in tenant.gpus)
    return (
        tenant.state is State.RESTORING
        and (tenant.restored or is_gone or not tenant.room_given)
        and not tenant.has_orders
        and not scene.misses(tenant)
        and _has_room_to_grow(scene, tenant)
    )


def _let_in(scene: Scene, tenant: Tenant) -> None:
    scene.transition(tenant, Cause.READY)
    tenant.epoch += 1
    scene.leases.give(scene.out, tenant)
    scene.coming.remove(tenant)
    scene.holding.append(tenant)


def _begin_turn(scene: Scene, tenant: Tenant) -> None:
    tenant.turns += 1
    tenant.coming_bytes = 0
    tenant.room_given = tenant.restored = False
    tenant.stuck_until_s = tenant.due_s = tenant.kept_until_s = 0.0
    tenant.round_s = scene.accounts.round_s(tenant)
    turn_s = 0.0 if tenant.is_guest else scene.turns.turn_s(tenant)
    tenant.turn_ends_s = scene.now_s + turn_s
    tenant.spells.go_on(scene.now_s)
    tenant.window_ends_s = scene.now_s + scene.turns.worthwhile_s(tenant)
    _answer(scene, tenant)


def _has_room_to_grow(scene: Scene, tenant: Tenant) -> bool:
    """Whether what it asked for before it was chosen could be answered at once.

    Its turn must not run out while room for that is made. What does not fit beside the others
    it gets later, as a holder that grows.
    """
    for gpu in tenant.gpus if tenant.requests else ():
        balance = scene.balances[gpu]
        fits = balance.staying_bytes <= balance.capacity_bytes
        if fits and balance.free_bytes < tenant.pending_bytes(gpu):
            return False
    return True


def answer_requests(scene: Scene) -> None:
    """Say yes to whatever there is room for now."""
    for tenant in scene.asking:
        _answer(scene, tenant)


def _answer(scene: Scene, tenant: Tenant) -> None:
    waiting = []
    grown: set[int] = set()
    for request in tenant.requests:
        balance = scene.balances[request.gpu]
        if request.is_context:
            ready = balance.free_bytes >= 0
            if ready and request.is_need:
                tenant.needs_until_s = scene.now_s + KEPT_S
                scene.wake_at(tenant.needs_until_s)
            if not ready:
                tenant.blocked_by = "room for its context is being made"
        else:
            settled = balance.staying_bytes - balance.pending_bytes
            left = balance.capacity_bytes - max(settled, balance.charged_bytes)
            ready = tenant.holds and left >= request.bytes
        if not ready:
            waiting.append(request)
            continue
        tenant.gpus[request.gpu].charged_bytes += request.bytes
        balance.charged_bytes += request.bytes
        if tenant.stays:
            balance.pending_bytes -= request.bytes
        scene.out.append(do.Admitted(tenant.number, request.gpu, request.serial))
        if not (request.is_context or request.pinned or request.managed):
            grown.add(request.gpu)
    tenant.requests = waiting
    for gpu in grown:
        scene.allowances.give(scene, tenant, gpu)
