"""Processes that hold together or not at all: they are chosen, granted and drained as one.

The work of one member may wait for work of another: a collective operation's kernel for its other
half. So a gang is one tenant in all that concerns turns: its members are chosen, granted and
revoked in the same step, and their bytes leave only once all of them have drained.

A drain may interrupt a collective operation: one member has launched its half, and the other stands
at the gate with its own. Members that have drained and stand at the gate are then let through for
single calls, until they have caught up with the members that are ahead (docs/decisions/0019).
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.overdue import give_back_together
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.gang import level
from moiety.arbiter.state.tenant import Tenant, TenantGang
from moiety.arbiter.states import WITH_LEASE, Cause, State

_WANTING = frozenset({State.QUEUED, State.RESTORING}) | WITH_LEASE


# Members


def enter(ledger: Ledger, tenant: Tenant, name: str, size: int, *, begun: bool) -> None:
    """Make a tenant a member; it leaves the gang that it was in."""
    if tenant.gang is not None and tenant.gang.name == name:
        tenant.gang.size = max(tenant.gang.size, size)
        return
    answered = tenant.drain.answered
    leave(ledger, tenant)
    tenant.drain.answered = answered
    gang = ledger.gangs.setdefault(name, TenantGang(name))
    gang.size = max(gang.size, size)
    gang.members.append(tenant)
    gang.members.sort(key=lambda t: t.number)
    tenant.gang = gang
    gang.is_begun = gang.is_begun or begun or len(gang.members) >= gang.size
    level(gang)
    ledger.members_changed = True


def leave(ledger: Ledger, tenant: Tenant) -> None:
    """End a tenant's membership; the gang goes on with the other members."""
    gang, tenant.gang, tenant.drain.answered = tenant.gang, None, False
    if gang is None:
        return
    gang.members.remove(tenant)
    gang.ahead.discard(tenant.number)
    ledger.members_changed = True
    if gang.members:
        level(gang)
    else:
        del ledger.gangs[gang.name]


# Turns of a gang


def look_after_gangs(round_: Round) -> None:
    """End drains that are over, go on with those that are not: a round begins with this."""
    for gang in round_.ledger.gangs.values():
        draining = [m for m in gang.members if m.state is State.DRAINING]
        if draining and not gang.is_draining:
            _end_drain(round_, draining)
        elif draining and not any(m.state is State.STOPPED for m in gang.members):
            _let_through(round_, gang, draining)
            give_back_together(round_, gang.members)
        _want_together(round_, gang)


def detain(round_: Round) -> None:
    """Keep the bytes of a gang's members on the GPU while one member cannot be drained.

    The work of the others may have to go on before the work of that member can end.
    """
    for gang in round_.ledger.gangs.values():
        stuck = any(m.drain.silent and m.is_late for m in gang.members)
        for member in gang.members:
            detained = stuck and member.drain.answered
            if member.drain.detained != detained:
                member.drain.detained = detained
                round_.ledger.touch(member)


def _want_together(round_: Round, gang: TenantGang) -> None:
    """Queue all members as soon as one of them wants to run."""
    if not any(member.state in _WANTING for member in gang.members):
        return
    for member in gang.members:
        if member.state is State.IDLE:
            round_.fair_share.wake(member)
            round_.ledger.transition(member, Cause.WANTED, round_.now_s)


def _end_drain(round_: Round, draining: list[Tenant]) -> None:
    wants = any(member.stands_at_gate for member in draining)
    for member in draining:
        round_.ledger.count(member)
        member.drain.reopens = member.drain.gave_up = 0
        cause = Cause.DRAINED_WANTING if wants else Cause.DRAINED
        round_.ledger.transition(member, cause, round_.now_s)


def _let_through(round_: Round, gang: TenantGang, draining: list[Tenant]) -> None:
    """Let drained members that stand at the gate pass it for one call, once that may help.

    Members that are ahead are not let through, so the others catch up and do not overtake them. If
    the wrong members were let through, the two groups change places, less and less often.
    """
    now_s, settings = round_.now_s, round_.settings
    late = {member.number for member in gang.members if member.is_late}
    began_s = max(member.since_s for member in draining)
    if gang.drained_from_s != began_s:
        gang.drained_from_s = gang.ahead_since_s = began_s
        gang.ahead, gang.stepping_since_s, gang.swaps = late, None, 0
    gang.ahead &= late
    if not gang.ahead:
        gang.ahead, gang.ahead_since_s, gang.stepping_since_s = late, now_s, None
        gang.swaps += 1
    standing = [m for m in draining if m.drain.answered and m.drain.wants_again]
    if not standing or gang.swaps > settings.step_swaps:
        return
    step_s = gang.ahead_since_s + settings.step_after_s * 2.0**gang.swaps
    if now_s < step_s:
        round_.wake_at(step_s)
        return
    if gang.stepping_since_s is None:
        gang.stepping_since_s = now_s
    if now_s > gang.stepping_since_s + settings.step_for_s:
        return
    for member in standing:
        member.drain.answered = member.drain.wants_again = False
        told_s = member.drain.told_s  # one deadline for the whole hand-off, however many calls
        round_.expect(member, settings.revoke_deadline_s)
        soonest_s = now_s + settings.look_after_s
        member.drain.told_s = told_s
        member.drain.due_s = max(soonest_s, told_s + settings.revoke_deadline_s)
        round_.out.append(do.AllowOne(member.number, member.epoch))
