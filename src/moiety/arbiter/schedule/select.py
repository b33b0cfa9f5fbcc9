"""Which tenants are chosen for the next turns, and which wait behind others."""

from __future__ import annotations

from collections.abc import Iterator

from moiety.arbiter import instructions as do
from moiety.arbiter.admission.memory import outgrown, promised_here_bytes
from moiety.arbiter.schedule.explain import why_apart, why_never
from moiety.arbiter.schedule.preempt import revoke_for
from moiety.arbiter.schedule.rivals import movable_bytes
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.side_by_side import wait_for_others
from moiety.arbiter.schedule.starvation import bring_forward, find_overdue
from moiety.arbiter.schedule.throttle import wait_for_window
from moiety.arbiter.schedule.time_limits import EXACT_S
from moiety.arbiter.schedule.visits import begin_visit, find_visitors
from moiety.arbiter.state.gang import firsts, gpus_of, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import Cause, State

_BEHIND = "others are ahead in the queue"
_VISIT_S = 0.02
"""The shortest rest of a turn for which a guest is let in."""


def refuse_outgrown(round_: Round) -> None:
    """Refuse admitted requests that no longer fit, because bytes came that cannot leave."""
    promised: dict[int, int] = {}
    for tenant in round_.asking:
        for request in reversed(list(tenant.requests)):
            if request.is_context or request.bytes == 0:
                continue
            gpu = request.gpu
            if gpu not in promised:
                promised[gpu] = promised_here_bytes(round_.ledger, gpu)
            refusal = outgrown(tenant, gpu, round_.balances[gpu].capacity_bytes, promised[gpu])
            if refusal is None:
                continue
            round_.ledger.withdraw(tenant, request)
            del promised[gpu]  # the bytes may have been pinned
            code, text = refusal
            round_.out.append(do.Refused(tenant.number, gpu, request.serial, code, text))


def take_turns(round_: Round) -> Iterator[None]:
    """Choose the tenants that fit, in the order of _demands; revoke for the first that does not.

    A later tenant may pass only where that cannot make the tenants ahead wait any longer: for a
    whole turn, or as a guest, which leaves as soon as one of them could come. It yields as soon as
    a lease is revoked.
    """
    ahead: dict[int, int] = {}
    begun: set[int] = set()
    for tenant in _demands(round_):
        if round_.out:
            yield
        if tenant.state is State.DRAINING:
            continue  # revoked for an earlier tenant in this loop
        if round_.attaching and any(mate in round_.attaching for mate in mates(tenant)):
            continue  # it attaches a GPU next, and waits for its turn with that
        if tenant.state is State.QUEUED and tenant.gang is not None:
            holds = any(mate.stays for mate in mates(tenant))
            holds = holds and not any(mate.suspension for mate in mates(tenant))
            if holds and not _is_awaited(round_, tenant):
                _join_in(round_, tenant)
                continue
            if apart := why_apart(tenant.gang):
                _explain(tenant, apart)
                continue
        if tenant.state is State.QUEUED and any(m.usage.paused and m.gpus for m in mates(tenant)):
            wait_for_window(round_, tenant)
            continue
        if tenant.usage.sits_out and tenant.state is State.QUEUED:
            wait_for_others(tenant)
            continue
        if ahead and not round_.fits(tenant) and _is_plainly_behind(round_, tenant, ahead):
            tenant.blocked_by = _BEHIND
            continue
        behind = not gpus_of(tenant).isdisjoint(ahead)
        if never := why_never(round_, tenant):
            tenant.blocked_by = never
        elif behind and not _may_pass(round_, tenant, ahead):
            if _may_visit(round_, tenant):
                tenant.lease.is_guest = True
                _choose(round_, tenant)
            else:
                tenant.blocked_by = _BEHIND
                _line_up(round_, tenant, ahead)
        elif round_.fits(tenant) or (not behind and (yield from revoke_for(round_, tenant))):
            tenant.blocked_by = ""
            if tenant.state is State.QUEUED:
                tenant.lease.is_guest = False
                brings = {gpu: round_.brings_bytes(tenant, gpu) for gpu in gpus_of(tenant)}
                if tenant.number in round_.overdue:
                    bring_forward(round_, tenant)
                if tenant.number in round_.visitors:
                    begin_visit(round_, tenant)
                _choose(round_, tenant)
                begun |= brings.keys()
                for gpu in ahead.keys() & brings.keys():
                    ahead[gpu] -= brings[gpu]
        else:
            _line_up(round_, tenant, ahead)
        if tenant.gang is not None and tenant.state is State.QUEUED:
            _explain(tenant, tenant.blocked_by)
    if round_.out:
        yield
    if begun:
        _renew_turns(round_, begun - ahead.keys())


def _is_awaited(round_: Round, tenant: Tenant) -> bool:
    """Whether others make way for a queued member, because its gang could not be drained.

    The work of the holders may end only once this member has begun its part. To revoke them
    again would have all of them wait for ever.
    """
    if round_.fits(tenant):
        return False
    kept_s = max(mate.lease.kept_until_s for mate in mates(tenant) if mate.stays)
    if round_.now_s < kept_s:
        round_.wake_at(kept_s)
        return True
    return any(mate.is_beyond for mate in mates(tenant))


def _join_in(round_: Round, tenant: Tenant) -> None:
    """Choose the queued members of a gang whose other members hold, or revoke the whole gang."""
    if round_.fits(tenant) and not why_never(round_, tenant):
        _choose(round_, tenant)
    else:
        _explain(tenant, "it joins a gang that holds the GPU already, which gives it back for that")
        round_.revoke(tenant)


def _explain(tenant: Tenant, reason: str) -> None:
    """Note why a tenant and its gang wait."""
    for mate in mates(tenant):
        if mate.state is State.QUEUED:
            mate.blocked_by = reason


def _renew_turns(round_: Round, gpus: set[int]) -> None:
    """Where no tenant waits any more, begin another turn of the holders that stay.

    Otherwise a tenant that just left could have one of them revoked in exchange for itself.
    """
    for tenant in round_.holding:
        if not tenant.gpus.keys().isdisjoint(gpus):
            turn_s = round_.quantum.turn_s(tenant)
            if tenant.lease.turn_ends_s < round_.now_s + turn_s / 2:
                tenant.lease.is_guest = False
                tenant.lease.turn_ends_s = round_.now_s + turn_s


def _demands(round_: Round) -> list[Tenant]:
    """The tenants that want a turn or more memory, in their order.

    The highest class goes first. Within a class, holders that grow go first, then starved tenants
    (starvation.py), visitors and tenants that were interrupted for them (visits.py), and then the
    tenants that are furthest behind. Where no tenant requested a part of
    the time, the first in the queue goes before a tenant that is less than two turns further
    behind: so they take turns in the same order each round.
    """
    tenants = round_.ledger.tenants
    growing = [t for t in round_.asking if t.is_growing]
    waiting = [tenants[number] for number in round_.ledger.queue]
    if round_.ledger.gangs:
        waiting = list(firsts(waiting))
    demands = growing + waiting
    is_exact = any(tenant.usage.by_lag for tenant in demands)
    round_.overdue = find_overdue(round_, waiting) if round_.has_rivals and waiting else set()
    round_.visitors = find_visitors(round_, waiting)
    if len(demands) < 2:
        return demands
    interrupted = round_.visits.rests_s
    # A tenant begins with the lag 0. Those who begin again and again, for a turn each, would take
    # time that others were promised, if these have just what is due to them.
    are_promised = is_exact and any(tenant.usage.promised for tenant in demands)
    ahead_s = _dearest_turn_s(round_, demands) / 2 if are_promised else 0.0

    def urgency(tenant: Tenant) -> tuple[int, bool, bool, bool, bool, int]:
        step_s = EXACT_S if is_exact else max(EXACT_S, 2 * round_.quantum.turn_s(tenant))
        waits, in_turn = tenant.state is State.QUEUED, tenant.number not in round_.overdue
        visits, goes_on = tenant.number in round_.visitors, tenant.number in interrupted
        margin_s = 0.0 if tenant.usage.promised else ahead_s
        lags = -round((tenant.lag_s - margin_s) / step_s)
        return -tenant.usage.rank, waits, in_turn, not visits, not goes_on, lags

    demands.sort(key=urgency)
    return demands


def _dearest_turn_s(round_: Round, demands: list[Tenant]) -> float:
    """The shortest turn that is worth the dearest hand-off to one of these."""
    quantum = round_.quantum
    return quantum.least_s(max(quantum.handoff_s(tenant) for tenant in demands))


def _is_plainly_behind(round_: Round, tenant: Tenant, ahead: dict[int, int]) -> bool:
    """Whether a tenant of one GPU has no room beside the tenants ahead: a quick check."""
    if len(tenant.gpus) != 1 or tenant.drain.silent or tenant.gang is not None:
        return False
    (gpu,) = tenant.gpus
    if gpu not in ahead:
        return False
    need = movable_bytes(tenant, tenant.gpus[gpu])
    room = ahead[gpu]
    balance = round_.balances[gpu]
    if need <= max(0, room) or need > balance.capacity_bytes - balance.firm_bytes:
        return False
    ahead[gpu] = room - need
    return True


def _line_up(round_: Round, tenant: Tenant, ahead: dict[int, int]) -> None:
    """Note in `ahead`, for each of its GPUs, the bytes that others may take without hindering it.

    Only tenants that held before it was queued will make way for it; it must fit beside all others.
    """
    for gpu in gpus_of(tenant):
        if gpu not in ahead:
            balance = round_.balances[gpu]
            ahead[gpu] = balance.capacity_bytes - balance.firm_bytes
            if tenant.holds:
                ahead[gpu] = 0
            for other in round_.holding + round_.coming:
                if (
                    other.since_s >= tenant.lease.waits_since_s
                    and gpu in other.gpus
                    and not other.lease.is_guest
                ):
                    ahead[gpu] -= movable_bytes(other, other.gpus[gpu])
        ahead[gpu] -= round_.needs_bytes(tenant, gpu)
        if tenant.usage.by_lag or tenant.share.latency:  # it waits for the whole GPU
            ahead[gpu] = min(ahead[gpu], -1)


def _may_pass(round_: Round, tenant: Tenant, ahead: dict[int, int]) -> bool:
    if tenant.holds:
        return False
    return all(
        round_.brings_bytes(tenant, gpu) <= max(0, ahead[gpu])
        for gpu in gpus_of(tenant)
        if gpu in ahead
    ) and round_.fits(tenant)


def _may_visit(round_: Round, tenant: Tenant) -> bool:
    """Whether it pays to join the holders as a guest, until a tenant ahead could come.

    It pays if the tenant fits, no other tenant's memory has to leave for it, and the shortest turn
    that goes on lasts long enough for the bytes that have to move in.
    """
    if tenant.state is not State.QUEUED or tenant.gang is not None or not round_.fits(tenant):
        return False
    for gpu, on in tenant.gpus.items():
        if on.need_bytes - on.charged_bytes > max(0, round_.spare_bytes(gpu)):
            return False
    holders = [t for t in round_.holding if not t.gpus.keys().isdisjoint(tenant.gpus)]
    left_s = min((t.lease.turn_ends_s for t in holders), default=0.0) - round_.now_s
    return left_s >= max(_VISIT_S, round_.quantum.visit_s(round_.move_bytes(tenant)))


def _choose(round_: Round, tenant: Tenant) -> None:
    is_moving = round_.move_bytes(tenant) > 0
    for mate in [mate for mate in mates(tenant) if mate.state is State.QUEUED]:
        mate.blocked_by = ""
        mate.lease.is_moving = is_moving
        mate.lease.is_guest = tenant.lease.is_guest
        round_.transition(mate, Cause.CHOSEN)
        round_.coming.append(mate)
