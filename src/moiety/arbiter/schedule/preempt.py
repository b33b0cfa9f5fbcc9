"""Which holders lose their leases: for a tenant that goes before them, or where not all fit."""

from __future__ import annotations

from collections.abc import Generator

from moiety.arbiter.schedule.explain import why_behind
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.throttle import postpone
from moiety.arbiter.state.gang import are_mates, firsts, gpus_of, is_among
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State


def make_fit(round_: Round) -> None:
    """Where holders and restoring tenants do not fit any more, postpone or revoke some of them.

    The cause is a context that came in between, or memory that was being evicted and turned out
    unable to leave. Restoring tenants are postponed first: that interrupts no work.
    """
    for gpu, balance in round_.balances.items():
        if balance.staying_bytes - balance.pending_bytes <= balance.capacity_bytes:
            continue
        for tenant in reversed(list(round_.coming)):
            is_coming = tenant.state is State.RESTORING  # not if postponed with its gang
            if is_coming and round_.gives(tenant, gpu) > 0 and round_.over_bytes(gpu) > 0:
                postpone(round_, tenant)
        holding = sorted(round_.holding, key=round_.by_turn)
        # a tenant that needs the room for its driver goes last
        holding.sort(key=lambda t: t.memory.needs_until_s > 0)
        for tenant in holding:
            if round_.over_bytes(gpu) <= 0:
                break
            if not tenant.holds or round_.gives(tenant, gpu) <= 0:
                continue
            if tenant.memory.needs_until_s and _lacks_only_its_own(round_, tenant, gpu):
                continue  # others make that room, or it is refused when its time is up
            if round_.turn_is_over(tenant):
                round_.revoke(tenant)
            else:
                round_.watch(tenant, round_.over_bytes(gpu))


def _lacks_only_its_own(round_: Round, tenant: Tenant, gpu: int) -> bool:
    """Whether all would fit on a GPU without the room that a tenant's driver needs."""
    return round_.over_bytes(gpu) <= tenant.gpus[gpu].needed_bytes


def revoke_for(round_: Round, tenant: Tenant) -> Generator[None, None, bool]:
    """Revoke holders whose turn is over until `tenant` fits; False if it cannot.

    `Round.by_turn` is their order. It yields as soon as it is known which tenants have to drain.
    Holders whose turn is not over are watched, and their turn's end becomes the deadline. Restoring
    tenants of a lower class are postponed.
    """
    if _step_back_for(round_, tenant):
        return True
    gaps = _gaps(round_, tenant)
    rivals = list(firsts(round_.rivals(tenant)))
    helpers = [
        other
        for other in firsts(round_.holding)
        if other is not tenant
        and not are_mates(other, tenant)
        and (is_among(other, rivals) or any(round_.gives(other, gpu) > 0 for gpu in gaps))
    ]
    helpers.sort(key=round_.by_turn)
    if all(t.holds and round_.turn_is_over(t, tenant) for t in rivals):
        still = dict(gaps)
        for rival in rivals:
            for gpu in still:
                still[gpu] -= round_.gives(rival, gpu)
        leaving: list[Tenant] = []
        for other in helpers:
            if all(gap <= 0 for gap in still.values()):
                break
            if is_among(other, rivals) or not round_.turn_is_over(other, tenant):
                continue
            if any(gap > 0 and round_.gives(other, gpu) > 0 for gpu, gap in still.items()):
                leaving.append(other)
                for gpu in still:
                    still[gpu] -= round_.gives(other, gpu)
        if all(gap <= 0 for gap in still.values()):
            leaving = rivals + _needed(round_, leaving, still)
            for each in leaving:
                round_.tell_to_drain(each)
            yield
            for each in leaving:
                round_.begin_drain(each)
            return True
    for other in helpers:
        round_.watch(other, round_.move_bytes(tenant), tenant)
    in_the_way = helpers + [
        other
        for other in firsts(round_.coming)
        if not are_mates(other, tenant)
        and (is_among(other, rivals) or any(round_.gives(other, gpu) > 0 for gpu in gaps))
    ]
    tenant.blocked_by = why_behind(in_the_way, tenant)
    return False


def _gaps(round_: Round, tenant: Tenant) -> dict[int, int]:
    """By how much each GPU is too full for a tenant, where it is."""
    return {gpu: -left for gpu in gpus_of(tenant) if (left := round_.left_bytes(tenant, gpu)) < 0}


def _step_back_for(round_: Round, tenant: Tenant) -> bool:
    """Postpone restoring tenants of a lower class that are in the way; True if it fits then."""
    for other in reversed(list(round_.coming)):
        if other.usage.rank >= tenant.usage.rank or other.state is not State.RESTORING:
            continue
        helps = any(round_.gives(other, gpu) > 0 for gpu in _gaps(round_, tenant))
        if helps or is_among(other, round_.rivals(tenant)):
            postpone(round_, other)
            if round_.fits(tenant):
                return True
    return False


def _needed(round_: Round, leaving: list[Tenant], still: dict[int, int]) -> list[Tenant]:
    """The tenants of `leaving` that must go; the one that held the shortest is spared first."""
    needed = list(leaving)
    for other in reversed(leaving[:-1]):
        if all(gap + round_.gives(other, gpu) <= 0 for gpu, gap in still.items()):
            needed.remove(other)
            for gpu in still:
                still[gpu] += round_.gives(other, gpu)
    return needed
