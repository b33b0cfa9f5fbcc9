"""A tenant whose work is short and rare interrupts a turn, which goes on after it.

Where not all tenants fit, a turn lasts about nine hand-offs. A tenant with 5 ms of work would wait
for most of one. So it may come at once, for little more than its last busy periods took, if these
were shorter than moving its memory in and out, and it wanted nothing before for as long as the
visit takes. The interrupted tenant goes next, with what was left of its turn.

All visits on a GPU together take at most a part of its time (`visits_part`), with all that moves
for them: each visit leaves a debt of the time that it took, and there is no other visit until the
debt is down to what that one would take. A visitor that works for longer than before is revoked
like any other tenant, and gets the rest of its time in its ordinary turn. Its next busy periods are
expected to last as long (docs/decisions/0055).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from moiety.arbiter.schedule.rivals import counts_lag
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.time_limits import EXACT_S
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.state.visits import Debt, Visit
from moiety.arbiter.states import REVOKED, State

_MARGIN: Final = 1.5
"""A visit may last longer than the longest of the visitor's last busy periods by this factor."""
_WAITING: Final = REVOKED | {State.QUEUED, State.RESTORING}


def look_after_visits(round_: Round) -> None:
    """End the visits that are over, and forget the rests of turns that will not go on."""
    visits, tenants = round_.visits, round_.ledger.tenants
    for number in list(visits.rests_s):
        if number not in tenants or tenants[number].state not in _WAITING:
            del visits.rests_s[number]
    for number, visit in list(visits.under_way.items()):
        tenant = tenants.get(number)
        if tenant is None or not (tenant.stays or tenant.state in REVOKED):
            _end(round_, number, visit)
        elif not visits.rests_s:  # no interrupted tenant waits any more: it stays for a turn
            _end(round_, number, visit)
            tenant.lease.turn_ends_s = round_.now_s + round_.quantum.turn_s(tenant)


def find_visitors(round_: Round, waiting: Iterable[Tenant]) -> dict[int, set[int]]:
    """The tenants that may come for a visit now, each with the holders that it interrupts."""
    found: dict[int, set[int]] = {}
    if not round_.settings.visits_part:
        return found
    for tenant in waiting:
        visit = _visit(round_, tenant)
        if visit and (holders := _interrupts(round_, tenant)) is not None:
            ready_s = _ready_s(round_, _gpus(round_, tenant, holders), visit)
            if ready_s <= round_.now_s:
                found[tenant.number] = holders
            else:
                round_.wake_at(ready_s)
    return found


def begin_visit(round_: Round, tenant: Tenant) -> None:
    """Note that a visitor was chosen, and what is left of the turns that it interrupts."""
    visits, now_s = round_.visits, round_.now_s
    for number in round_.visitors[tenant.number]:
        holder = round_.ledger.tenants[number]
        if not holder.holds:
            visits.rests_s[number] = max(0.0, holder.lease.turn_ends_s - now_s)
    if visit := _visit(round_, tenant):
        visit.gpus = frozenset(_gpus(round_, tenant, round_.visitors[tenant.number]))
        visits.under_way[tenant.number] = visit
        for gpu in visit.gpus:
            _owe(round_, gpu, visit.cost_s)


def turn_s(round_: Round, tenant: Tenant) -> float:
    """How long a tenant holds that gets its lease now: a visit, the rest of a turn, or a turn."""
    if visit := round_.visits.under_way.get(tenant.number):
        return visit.work_s
    rest_s = round_.visits.rests_s.pop(tenant.number, None)
    return round_.quantum.turn_s(tenant) if rest_s is None else rest_s


def _visit(round_: Round, tenant: Tenant) -> Visit | None:
    """What a visit of a queued tenant would be; None if its work is not short and rare."""
    usage = tenant.usage
    expected_s = usage.busy_periods.expected_s
    if not expected_s or tenant.state is not State.QUEUED or tenant.gang is not None:
        return None
    if tenant.requests or tenant.managed_bytes or usage.paused or usage.sits_out:
        return None
    move_s = round_.quantum.move_s(round_.move_bytes(tenant))
    least_s = round_.settings.idle_min_s
    work_s = _MARGIN * expected_s + least_s
    cost_s = work_s + 2 * move_s
    if expected_s > max(least_s, 2 * move_s) or usage.busy_periods.rested_s < cost_s:
        return None
    return Visit(round_.now_s, work_s, move_s, cost_s, frozenset())


def _interrupts(round_: Round, tenant: Tenant) -> set[int] | None:
    """The holders whose turns a visit would interrupt; None: it would be none, or in vain."""
    if round_.fits(tenant):
        return None
    found = set()
    for other in round_.holding + round_.coming:
        if tenant.gpus.keys().isdisjoint(other.gpus):
            continue
        if other.holds and _may_interrupt(round_, other, tenant):
            found.add(other.number)
        elif not other.holds or not round_.turn_is_over(other, tenant):
            return None
    if found or any(_is_interrupted(round_, number, tenant) for number in round_.visits.rests_s):
        return found
    return None


def _may_interrupt(round_: Round, holder: Tenant, tenant: Tenant) -> bool:
    """Whether a holder can go on later with its turn, and has more of it left than the move."""
    return (
        holder.state is State.HOLDING
        and holder.gang is None
        and holder.usage.rank == tenant.usage.rank
        and not (holder.share.latency or holder.lease.is_guest or holder.managed_bytes)
        and not round_.quantum.has_quantum(holder)
        and not holder.is_growing
        and round_.now_s >= holder.lease.kept_until_s
        and holder.number not in round_.visits.under_way
        and not (counts_lag(holder, tenant) and tenant.lag_s < holder.lag_s - EXACT_S)
        and round_.turn_ends_s(holder, tenant) - round_.now_s
        > round_.quantum.move_s(round_.move_bytes(tenant))
    )


def _is_interrupted(round_: Round, number: int, tenant: Tenant) -> bool:
    """Whether this tenant waits with the rest of a turn on a GPU of `tenant`."""
    other = round_.ledger.tenants[number]
    return other is not tenant and not tenant.gpus.keys().isdisjoint(other.gpus)


def _gpus(round_: Round, tenant: Tenant, holders: set[int]) -> set[int]:
    """The GPUs that a visit takes time from: the visitor's, and those of all it interrupts."""
    tenants = round_.ledger.tenants
    later = (n for n in round_.visits.rests_s if _is_interrupted(round_, n, tenant))
    return set(tenant.gpus).union(*(tenants[number].gpus for number in [*holders, *later]))


def _ready_s(round_: Round, gpus: Iterable[int], visit: Visit) -> float:
    """When the debts of all these GPUs are down to what a visit takes."""
    over_s = max((_debt_s(round_, gpu) - visit.cost_s for gpu in gpus), default=-math.inf)
    return round_.now_s + over_s / round_.settings.visits_part if over_s > EXACT_S else round_.now_s


def _debt_s(round_: Round, gpu: int) -> float:
    debt = round_.visits.debts.get(gpu)
    if debt is None:
        return 0.0
    return max(0.0, debt.left_s - round_.settings.visits_part * (round_.now_s - debt.since_s))


def _owe(round_: Round, gpu: int, more_s: float) -> None:
    round_.visits.debts[gpu] = Debt(max(0.0, _debt_s(round_, gpu) + more_s), round_.now_s)


def _end(round_: Round, number: int, visit: Visit) -> None:
    """Charge what a visit really took."""
    del round_.visits.under_way[number]
    for gpu in visit.gpus:
        _owe(round_, gpu, round_.now_s - visit.began_s + visit.back_s - visit.cost_s)
