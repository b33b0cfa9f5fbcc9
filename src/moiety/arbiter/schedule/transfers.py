"""Room for restores, leases once all is resident, and answers to requests."""

from __future__ import annotations

from collections.abc import Generator

from moiety.arbiter import instructions as do
from moiety.arbiter.admission.driver_reserve import KEPT_S
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.visits import turn_s
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import Cause, State


def give_room(round_: Round) -> None:
    """Give free bytes to restoring tenants, in the order in which they were chosen."""
    for tenant in round_.coming:
        if tenant.has_orders:
            continue
        given = False
        for gpu in tenant.gpus:
            balance = round_.balances[gpu]
            amount = min(balance.free_bytes, tenant.missing_bytes(gpu))
            if amount > 0:
                given = True
                round_.ledger.restore(tenant, gpu, amount)
                round_.out.append(do.RestoreBudget(tenant.number, gpu, amount))
        if given:
            tenant.memory.room_given = True
        restores = tenant.memory.room_given and not tenant.memory.restored
        if restores and (given or not tenant.drain.due_s) and not round_.misses(tenant):
            longest_s = 4 * round_.quantum.move_s(tenant.memory.coming_bytes)
            round_.expect(tenant, round_.settings.revoke_deadline_s + longest_s)


def finish_coming(round_: Round) -> Generator[None, None, bool]:
    """Grant leases to restoring tenants whose bytes are all resident; returns whether any was.

    It yields as soon as a lease is granted, before the turn that begins is worked out.
    """
    granted = False
    round_.early.clear()
    for tenant in list(round_.coming):
        together = [mate for mate in mates(tenant) if not mate.holds]
        if not together or not all(_has_all(round_, mate) for mate in together):
            continue
        if drains := [other for mate in together for other in round_.drains_for(mate)]:
            if len(drains) == 1:
                round_.early.note(tenant, drains[0])
            continue
        took_s = [round_.now_s - mate.since_s for mate in together]
        for mate in together:
            _let_in(round_, mate)
        if round_.out:
            yield
        round_.quantum.moved(together, took_s)
        round_.fair_share.refresh()
        for mate in together:
            _begin_turn(round_, mate)
        granted = True
    return granted


def _has_all(round_: Round, tenant: Tenant) -> bool:
    """Whether every byte of a restoring tenant is resident, or never can be: its GPU is lost."""
    is_gone = any(gpu in round_.ledger.lost for gpu in tenant.gpus)
    return (
        tenant.state is State.RESTORING
        and (tenant.memory.restored or is_gone or not tenant.memory.room_given)
        and not tenant.has_orders
        and not round_.misses(tenant)
        and _has_room_to_grow(round_, tenant)
    )


def _let_in(round_: Round, tenant: Tenant) -> None:
    round_.transition(tenant, Cause.READY)
    tenant.epoch = tenant.next_epoch
    if not round_.early.confirm(tenant):
        round_.out.append(do.Grant(tenant.number, tenant.epoch))
    round_.coming.remove(tenant)
    round_.holding.append(tenant)


def _begin_turn(round_: Round, tenant: Tenant) -> None:
    tenant.lease.turns += 1
    round_.ledger.begin_turn(tenant)
    tenant.memory.host_short = None
    tenant.memory.room_given = tenant.memory.restored = False
    tenant.drain.due_s = tenant.lease.kept_until_s = 0.0
    tenant.lease.round_s = round_.fair_share.round_s(tenant)
    tenant.lease.turn_ends_s = round_.now_s
    if not tenant.lease.is_guest:
        tenant.lease.turn_ends_s += turn_s(round_, tenant)
    tenant.usage.busy_periods.go_on(round_.now_s)
    tenant.lease.window_ends_s = round_.now_s + round_.quantum.worthwhile_s(tenant)
    _answer(round_, tenant)


def _has_room_to_grow(round_: Round, tenant: Tenant) -> bool:
    """Whether the requests that it made before it was chosen could be answered at once.

    Its turn must not run out while room for them is made. Bytes that do not fit beside the others
    it gets later, as a holder that grows.
    """
    for gpu in tenant.gpus if tenant.requests else ():
        balance = round_.balances[gpu]
        fits = balance.staying_bytes <= balance.capacity_bytes
        if fits and balance.free_bytes < tenant.growth_bytes(gpu):
            return False
    return True


def answer_requests(round_: Round) -> None:
    """Admit the requests for which there is room now."""
    for tenant in round_.asking:
        _answer(round_, tenant)


def _answer(round_: Round, tenant: Tenant) -> None:
    grown: set[int] = set()
    for request in list(tenant.requests):
        balance = round_.balances[request.gpu]
        if request.is_context:
            ready = balance.free_bytes >= 0
            if ready and request.is_need:
                tenant.memory.needs_until_s = round_.now_s + KEPT_S
                round_.wake_at(tenant.memory.needs_until_s)
            if not ready:
                tenant.blocked_by = "room for its context is being made"
        else:
            settled = balance.staying_bytes - balance.pending_bytes
            left = balance.capacity_bytes - max(settled, balance.charged_bytes)
            on = tenant.gpus[request.gpu]
            ready = tenant.holds and left >= min(request.bytes, on.need_bytes - on.charged_bytes)
        if not ready:
            continue
        round_.ledger.charge(tenant, request)
        round_.out.append(do.Admitted(tenant.number, request.gpu, request.serial))
        if not (request.is_context or request.pinned or request.managed):
            grown.add(request.gpu)
    for gpu in grown:
        round_.credit.give(
            tenant,
            gpu,
            round_.balances[gpu],
            round_.settings,
            round_.now_s,
            round_.out,
            is_calm=round_.is_calm,
        )
