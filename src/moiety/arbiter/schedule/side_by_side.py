"""Tenants that fit hold a GPU together, and who is ahead of its part sits out for a while.

A GPU divides its time equally among the processes that have work. Where parts are not equal, a
tenant that is ahead by a window sits out: it has no lease until the others have caught up. All
tenants of an owner or of a workload sit out where they are ahead together (owners.py). For 70
and 30 percent that is 40 % of the time for the first alone, and the rest together. The windows
follow from what each tenant received, as the agent counts it: time with a lease, divided by the
number of tenants with one. A tenant that says that it is silent gives its lease back, so no word of
a client changes the account. Tenants that do not fit take turns instead (select.py).
"""

from __future__ import annotations

from typing import Final

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.owners import Group
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.time_limits import EXACT_S
from moiety.arbiter.state.gang import are_mates, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING, State

_FITS_S: Final = 0.5
"""How long tenants must have fitted together until they no longer take turns."""


def find_crowded(round_: Round) -> None:
    """Find the GPUs on which the tenants that want time do not fit together.

    A GPU on which they have fitted again for a while begins without the lags of the turns before.
    Not at once: a tenant that has drained is idle until it asks for its next lease.
    """
    before, fits_since_s = round_.fair_share.crowded, round_.fair_share.fits_since_s
    found = set()
    for gpu, balance in round_.balances.items():
        if balance.allocated_bytes > balance.capacity_bytes and _is_crowded(round_, gpu):
            found.add(gpu)
            fits_since_s.pop(gpu, None)
        elif gpu in before:
            ends_s = fits_since_s.setdefault(gpu, round_.now_s) + _FITS_S
            if round_.now_s < ends_s:
                found.add(gpu)
                round_.wake_at(ends_s)
            else:
                del fits_since_s[gpu]
    if found != before:
        round_.fair_share.crowded = found
        round_.fair_share.forget_turns(before - found)
        round_.ledger.parts_changed = True  # room for hand-offs is part of it, or is not any more


def _is_crowded(round_: Round, gpu: int) -> bool:
    balance = round_.balances[gpu]
    need = sum(
        tenant.staying_bytes(on) if tenant.state in RESTING else on.need_bytes
        for tenant, on in round_.ledger.on(gpu)
    )
    return need > balance.capacity_bytes


def choose_sitters(round_: Round) -> None:
    """Find which tenants sit out now; holders among them lose their leases."""
    fair_share = round_.fair_share
    window_s = fair_share.window_s()
    sitters: dict[int, Tenant] = {}
    for key, members in fair_share.side_by_side():
        ahead: set[int] = set()
        leading = [each for each in fair_share.groups(key) if _is_ahead(each, window_s)]
        for group in leading:
            ahead.update(tenant.number for tenant in group.members)
        works = [t for t, _ in members if _works(t) and t.number not in ahead]
        for group in fair_share.groups(key):
            group.sits_out = False
        if not works:
            continue
        for group in leading:
            for tenant in group.members:
                if tenant.is_beyond:
                    continue
                if any(not are_mates(t, tenant) for t in works):
                    group.sits_out = True
                    sitters.update((mate.number, mate) for mate in mates(tenant))
                    fair_share.sitters.setdefault(tenant.number, tenant)
    for tenant in fair_share.sitters.values():
        tenant.usage.sits_out = tenant.number in sitters
    for tenant in sitters.values():
        tenant.usage.sits_out = True
    fair_share.sitters = sitters
    for tenant in sitters.values():
        if tenant.state is State.HOLDING:
            _end(round_, tenant)


def _is_ahead(group: Group, window_s: float) -> bool:
    """Whether it is ahead by a window, or was and the others have not caught up yet."""
    lag_s = group.lag_s
    return lag_s < -EXACT_S and (group.sits_out or lag_s <= -window_s * group.windows + EXACT_S)


def _works(tenant: Tenant) -> bool:
    """Whether it uses a GPU now, or is about to; who sits out or is silent does not."""
    if tenant.usage.sits_out or tenant.usage.paused:
        return False
    if tenant.state is State.HOLDING:
        return tenant.usage.silent_since_s is None
    return tenant.state is State.RESTORING


def _end(round_: Round, tenant: Tenant) -> None:
    """Revoke a lease, unless its holder got it back for a moment to end its work."""
    kept_s = max(mate.lease.kept_until_s for mate in mates(tenant))
    if kept_s > round_.now_s:
        round_.wake_at(kept_s)
    else:
        round_.revoke(tenant)


def end_silences(round_: Round) -> None:
    """Revoke the leases of silent tenants beside others, and watch the others for silences."""
    tell_s = round_.settings.idle_beside_s
    for _, members in round_.fair_share.side_by_side(limited=True):
        for tenant, _ in members:
            if tenant.state is not State.HOLDING or (tenant.requests and tenant.is_growing):
                continue
            works = tenant.usage.silent_since_s is None  # spares a look at its gang
            if works or any(
                mate.usage.silent_since_s is None for mate in mates(tenant) if mate.holds
            ):
                _watch(round_, tenant, tell_s)
            else:
                _end(round_, tenant)


def _watch(round_: Round, tenant: Tenant, tell_s: float) -> None:
    round_.wanted_watches.add(tenant.number)
    usage = tenant.usage
    if usage.silent_since_s is None and not 0 < usage.watched_s <= tell_s:
        usage.watched_s = tell_s
        round_.out.append(do.SetIdleTimeout(tenant.number, tell_s))


def wait_for_others(tenant: Tenant) -> None:
    """Note why a tenant that sits out does not get its lease."""
    for mate in mates(tenant):
        if mate.state is State.QUEUED:
            mate.blocked_by = "it is ahead of its part of the GPU's time, and others catch up"
