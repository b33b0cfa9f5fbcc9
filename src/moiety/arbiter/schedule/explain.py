"""Why a tenant waits, in words for people."""

from __future__ import annotations

from moiety.arbiter.schedule.round import Round
from moiety.arbiter.state.gang import are_mates, gpus_of, mates
from moiety.arbiter.state.tenant import Tenant, TenantGang
from moiety.arbiter.states import State
from moiety.model.format import format_fraction
from moiety.model.units import format_bytes


def why_late(tenant: Tenant) -> str:
    """Why a tenant does not give the GPU back, to follow its name; empty if it does."""
    if tenant.is_beyond:
        return "cannot be drained: its work on the GPU waits for threads that need the lease"
    if tenant.drain.stopped:
        return "is stopped (kill -CONT lets it go on)"
    if tenant.state is State.FENCED:
        return "does not give the GPU back and is fenced"
    if tenant.drain.detained and tenant.gang is not None:
        others = [mate for mate in tenant.gang.members if mate.drain.silent]
        return " and ".join(f"waits for its gang's {m.label}, which {why_late(m)}" for m in others)
    if tenant.state is State.DRAINING and tenant.drain.silent:
        return "cannot be drained: its last work does not end"
    if tenant.state is State.DRAINING and tenant.drain.gave_up:
        return "cannot be drained so far and is being tried again"
    return ""


def why_apart(gang: TenantGang) -> str:
    """Why the members that wait cannot be chosen now; empty if they can."""
    if gang.missing:
        return (
            f"its gang {gang.name} waits for {gang.missing} of {gang.size} members, that have not "
            "started"
        )
    for member in gang.members:
        if member.suspension is not None:
            return f"{member.label}, of its gang, is suspended"
        if member.is_late or member.state is State.FENCED:
            return f"{member.label}, of its gang, {why_late(member) or 'is giving the GPU back'}"
    return ""


def why_suspended(tenant: Tenant) -> str:
    """That a tenant is suspended, and what of its data stays on its GPUs."""
    if tenant.state is not State.SUSPENDED:
        return "it is being suspended"
    if tenant.has_orders:
        return "it is suspended, and its memory leaves the GPU"
    stays = sum(on.charged_bytes for on in tenant.gpus.values())
    if not stays:
        return "it is suspended"
    firm = sum(tenant.staying_bytes(on) for on in tenant.gpus.values())
    why = _why_firm(tenant) if firm else "for which the host has no room"
    return f"it is suspended, but for {format_bytes(stays)} {why}"


def why_behind(others: list[Tenant], tenant: Tenant) -> str:
    """Which of `others`, holders and restoring tenants, a tenant waits for."""
    if not others:
        return "room is being made for others"
    higher = [other for other in others if other.usage.rank > tenant.usage.rank]
    holders = [mate for other in higher or others for mate in mates(other) if mate.stays]
    names = ", ".join(str(holder.number) for holder in holders)
    found = f"tenants {names} hold the GPU"
    if len(holders) == 1:
        found = f"tenant {names} holds the GPU"
    late = [(o, why) for other in others for o in mates(other) if (why := why_late(o))]
    if late:
        other, why = late[0]
        return f"{other.label} holds the GPU and {why}"
    if higher:
        goes = "goes" if len(higher) == 1 else "go"
        found += f" and {goes} first ({_class_of(higher[0])})"
    return found


def why_never(round_: Round, tenant: Tenant) -> str:
    """Why `tenant` could not hold even if all others gave way; empty if it could."""
    for mate in mates(tenant):
        who = "it" if mate is tenant else f"{mate.label}, of its gang,"
        if mate.drain.stopped:
            return f"{who} is stopped; it goes on once it is continued (kill -CONT)"
        if mate.drain.silent:
            return f"{who} does not move its memory out as it was told"
        if mate.memory.barred:
            call = mate.memory.pinned_by or "a call"
            return f"{who} shuts out others: its memory cannot leave ({call})"
        if (short := mate.memory.host_short) is not None and round_.now_s < short.until_s:
            return short.reason
    for gpu in gpus_of(tenant):
        balance = round_.balances[gpu]
        if balance.capacity_bytes - balance.firm_bytes < round_.needs_bytes(tenant, gpu):
            return _name_firm(round_, tenant, gpu)
    return ""


def _name_firm(round_: Round, tenant: Tenant, gpu: int) -> str:
    """Name the bytes that are in the way of a tenant, in words and numbers."""
    own = [on for mate in mates(tenant) if (on := mate.gpus.get(gpu))]
    need = format_bytes(sum(on.need_bytes for on in own))
    room = format_bytes(round_.balances[gpu].capacity_bytes)
    others = [
        (other, stays)
        for other, on in round_.ledger.on(gpu)
        if other is not tenant
        and not are_mates(other, tenant)
        and (stays := other.staying_bytes(on)) > 0
    ]
    why = [f"{other.label}'s {format_bytes(stays)} {_why_firm(other)}" for other, stays in others]
    late = [f"{other.label}, which {found}" for other, _ in others if (found := why_late(other))]
    waits = f"waits for {' and '.join(late)}: " if late else ""
    beside = f" beside {', '.join(why)}" if why else ""
    return f"{waits}its {need} do not fit into the {room} of GPU {gpu}{beside}"


def _why_firm(tenant: Tenant) -> str:
    if tenant.drain.stopped:
        return "(it is stopped)"
    if tenant.is_beyond:
        return "(it cannot be drained)"
    if tenant.drain.detained:
        return "(its gang is not drained)"
    if tenant.drain.silent:
        return "(it does not answer)"
    if tenant.drain.stuck_until_s > 0:
        return "(moving it out failed)"
    return (
        f"that cannot leave ({tenant.memory.pinned_by})"
        if tenant.memory.pinned_by
        else "that cannot leave"
    )


def _class_of(tenant: Tenant) -> str:
    """Why a tenant goes first: what it was promised and has not had, or its class."""
    if tenant.usage.rank > tenant.usage.class_rank:
        for mate in mates(tenant):
            if part := mate.share.gpu or mate.usage.promised:
                return f"{format_fraction(part)} of the GPU are promised to it"
    return "latency" if tenant.share.latency else f"priority {tenant.share.priority}"
