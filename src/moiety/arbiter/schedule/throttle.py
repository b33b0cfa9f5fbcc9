"""Turns that end although no tenant waits: limits of GPU time, and shares that have changed."""

from __future__ import annotations

import itertools

from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import Apart, Cause, State
from moiety.model.format import format_fraction

Kind = tuple[tuple[int, ...], int, bool, float, Apart, bool, bool, str]
"""GPUs, rank, whether a share counts, part, `apart`, latency class, whether it cannot be drained,
gang."""


def separate(round_: Round) -> None:
    """Where holders or restoring tenants have become rivals, let the one that goes first stay.

    That happens after a change of a share, or if a holder has come to another GPU.
    """
    together = round_.holding + round_.coming
    if len(together) < 2 or not has_rivals(round_, together):
        return
    together.sort(
        key=lambda t: (
            round_.now_s >= t.lease.kept_until_s,
            t.state is State.UNDRAINABLE,
            -t.usage.rank,
            t.state is State.RESTORING,
            -t.lag_s,
            t.since_s,
        )
    )
    staying: dict[Kind, Tenant] = {}
    for tenant in together:
        if not any(round_.are_rivals(tenant, other) for other in staying.values()):
            staying.setdefault(_kind(tenant), tenant)
        elif tenant.holds:
            round_.revoke(tenant)
        elif tenant.state is State.RESTORING:  # and not postponed with its gang
            postpone(round_, tenant)


def has_rivals(round_: Round, together: list[Tenant]) -> bool:
    """Whether any two of these are rivals; one pair of each two kinds shows it."""
    kinds: dict[Kind, list[Tenant]] = {}
    for tenant in together:
        kind = kinds.setdefault(_kind(tenant), [])
        if len(kind) < 2:
            kind.append(tenant)
    some = [tenant for kind in kinds.values() for tenant in kind]
    return any(round_.are_rivals(one, other) for one, other in itertools.combinations(some, 2))


def _kind(tenant: Tenant) -> Kind:
    """All that decides which tenants are its rivals (`Round.are_rivals`)."""
    usage, gang = tenant.usage, tenant.gang
    return (
        tuple(tenant.gpus),
        usage.rank,
        usage.timed,
        usage.part if usage.weighed else 0.0,
        usage.apart,
        tenant.share.latency,
        tenant.is_beyond,
        gang.name if gang else "",
    )


def mend(round_: Round) -> None:
    """Repair gangs of which only a part holds or is restoring: a member is new, or is stopped.

    Restoring members are postponed, so that all come together. Holders stay if the others can join
    them at once (select.py), and are revoked if one of the others is being drained.
    """
    for gang in round_.ledger.gangs.values():
        coming = [m for m in gang.members if m.state is State.RESTORING]
        holding = [m for m in gang.members if m.state is State.HOLDING]
        waiting = [m for m in gang.members if not m.stays]
        if coming and waiting:
            postpone(round_, coming[0])
        if holding and any(m.is_late or m.state is State.FENCED for m in waiting):
            round_.revoke(holding[0])


def end_windows(round_: Round) -> None:
    """Revoke the lease of each tenant that has used up its limit."""
    for tenant in list(round_.holding):
        if tenant.share.gpu_limit >= 1 or not tenant.gpus or not tenant.holds:
            continue
        if tenant.usage.paused and round_.now_s >= tenant.lease.window_ends_s:
            round_.revoke(tenant)


def wait_for_window(round_: Round, tenant: Tenant) -> None:
    """Note why a tenant whose limit is used up does not get its turn, and until when."""
    for mate in mates(tenant):
        if mate.usage.paused:
            round_.wake_at(round_.fair_share.paused_until_s(mate))
            limit = format_fraction(mate.share.gpu_limit)
            tenant.blocked_by = f"its limit of {limit} of the GPU is used up for the moment"


def postpone(round_: Round, tenant: Tenant) -> None:
    """Send a restoring tenant and its gang back into the queue; that interrupts no work."""
    for mate in reversed([mate for mate in mates(tenant) if mate.state is State.RESTORING]):
        round_.coming.remove(mate)
        round_.transition(mate, Cause.POSTPONED)
