"""Refusals of requests that could never be held, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from moiety.arbiter.admission.user_limits import refuse_user_bytes
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.model.units import format_bytes

Refusal = tuple[str, str]
"""(code, sentence)"""


_WHOLE = 0.99
"""The part of a GPU that counts as all of it: a workload's processes divide it with a remainder."""


def refuse_bytes(
    ledger: Ledger,
    tenant: Tenant,
    gpu: int,
    wanted: int,
    *,
    pinned: bool,
    managed: bool = False,
    entry: Residency | None = None,
    reach: bool = True,
) -> Refusal | None:
    """Why `wanted` more bytes cannot be allocated; None if they can.

    `entry` stands for the tenant's residency where it has none yet. `reach`: what others freed just
    now is theirs.
    """
    used = entry.allocated_bytes if entry else limited_bytes(ledger, tenant, gpu)
    entry = entry or tenant.gpus[gpu]
    own, promised_own = _own_bytes(tenant, gpu)
    is_paged = managed and entry.may_oversubscribe and not tenant.memory.pinned
    takes = 0 if is_paged else wanted
    asked = f"{format_bytes(wanted)} more on GPU {gpu}"
    if used + wanted > entry.limit_bytes:
        return "limit", (
            f"{asked} would exceed this program's limit of "
            f"{format_bytes(entry.limit_bytes)} ({format_bytes(used)} in use)"
        )
    if no := refuse_user_bytes(ledger, tenant, gpu, wanted):
        return "limit", no
    promised = promised_bytes(ledger, gpu)
    budget = budget_bytes(ledger, gpu, ledger.promises[gpu].residue_bytes)
    room = budget - (promised - promised_own)
    if own + takes > room:
        left = format_bytes(max(0, room - own))
        if tenant.gang is not None and own > entry.allocated_bytes:
            return "capacity", (
                f"{asked} cannot be had: {left} of the GPU are left beside what its gang "
                f"{tenant.gang.name} has there, since all of that is held together"
            )
        if room == budget:
            return "capacity", f"{asked} cannot be had: {left} of the GPU are left to this program"
        return "capacity", (
            f"{asked} cannot be had: {left} of the GPU are left beside memory of others "
            f"that cannot leave{_coming(ledger, gpu)}; end the program that holds it (moiety ps)"
        )
    if pinned or tenant.memory.pinned:
        for other, allocated, stays in ledger.units(gpu, reach=reach):
            left_bytes = budget - promised + stays - allocated
            if other in mates(tenant):
                continue
            if 0 <= left_bytes < wanted:
                return "capacity", (
                    f"{asked} that cannot leave would shut out tenant {other.number}, which has "
                    f"{format_bytes(allocated)}; give either a --memory-limit"
                )
    beside = tenant if reach else None
    firm = pinned or managed or tenant.memory.pinned
    more = wanted if firm else _expected_bytes(ledger, wanted, 0)
    spill = _spill_bytes(ledger, gpu, more=more, beside=beside)
    if spill > ledger.arena_bytes and spill > _spill_bytes(ledger, gpu, beside=beside):
        return "capacity", (
            f"{asked} cannot be had: GPU and host memory for evicted data "
            f"({format_bytes(ledger.arena_bytes)}{_overcommitted(ledger)}) are full; "
            f"{instead(ledger)}"
        )
    return None


def limited_bytes(ledger: Ledger, tenant: Tenant, gpu: int) -> int:
    """What counts against a tenant's limit on a GPU: a limit is one of its whole workload.

    Without one, each process may have as much as the GPU.
    """
    beside = limited_beside(ledger, tenant, gpu) or []
    return tenant.gpus[gpu].allocated_bytes + sum(on.allocated_bytes for on in beside)


def limited_beside(ledger: Ledger, tenant: Tenant, gpu: int) -> list[Residency] | None:
    """What other processes of a tenant's workload have there; None if no limit counts them."""
    share = tenant.share
    is_limited = share.memory_limit_bytes is not None or share.memory_limit_part is not None
    if not (is_limited and tenant.workload):
        return None
    there = ((t, on) for t, on in ledger.on(gpu) if t is not tenant)
    return [on for t, on in there if t.workload == tenant.workload]


def refuse_beside_all(ledger: Ledger, gpu: int, tenant: Tenant) -> Refusal | None:
    """Why a tenant may not use a GPU whose time and memory are all promised to other tenants.

    It could allocate nothing there, and its context alone would interrupt them.
    """
    others = [t for t, _ in ledger.on(gpu) if t is not tenant]
    time = sum(t.share.gpu or 0.0 for t in others)
    kept = sum(t.share.memory_bytes for t in others)
    if tenant.share.gpu is not None or time < _WHOLE:
        return None
    if kept < ledger.specs[gpu].capacity_bytes * _WHOLE:
        return None
    names = ", ".join(str(t.number) for t in others if t.share.gpu)
    return "capacity", f"all of GPU {gpu} is promised to others (tenant {names}; moiety ps)"


def refuse_context(ledger: Ledger, gpu: int, residue: int, *, reach: bool = True) -> Refusal | None:
    """Why one more context does not fit on the GPU; None if it does. `reach` as above."""
    asked = f"no room for another context ({format_bytes(residue)}) on GPU {gpu}"
    budget = budget_bytes(ledger, gpu)
    after = budget_bytes(ledger, gpu, residue + ledger.promises[gpu].residue_bytes)
    promised = promised_bytes(ledger, gpu)
    if after < promised:
        beside = f"{format_bytes(promised)} that cannot leave{_coming(ledger, gpu)}"
        return "capacity", f"{asked} beside {beside}"
    for tenant, allocated, stays in ledger.units(gpu, reach=reach):
        need = allocated + promised - stays
        if after < need <= budget:
            return "capacity", (
                f"{asked}: tenant {tenant.number} needs {format_bytes(allocated)} of "
                f"{format_bytes(budget)}; give it a --memory-limit"
            )
    spill = _spill_bytes(ledger, gpu, residue=residue)
    if spill > ledger.arena_bytes and spill > _spill_bytes(ledger, gpu):
        return "capacity", (
            f"{asked}: host memory for evicted data ({format_bytes(ledger.arena_bytes)}) is full; "
            f"{instead(ledger)}"
        )
    return None


def _overcommitted(ledger: Ledger) -> str:
    return f", overcommitted {ledger.overcommit:g} times" if ledger.overcommit > 1 else ""


def instead(ledger: Ledger) -> str:
    """What a person can do about an arena that is full."""
    if ledger.arena_reason:
        return f"{ledger.arena_reason}; end a program"
    return "end a program or raise --arena"


def outgrown(tenant: Tenant, gpu: int, capacity: int, promised: int) -> Refusal | None:
    """Why a request that was admitted cannot be held any more; None if it still can.

    `promised`: what the tenants of the GPU were promised or have pinned, together, in bytes.
    """
    own, promised_own = _own_bytes(tenant, gpu, as_far_as_they_fit=True)
    beside = promised - promised_own
    if own + beside <= capacity:
        return None
    return "capacity", (
        f"the {format_bytes(own)} that this program needs in all no longer fit on GPU {gpu}: "
        f"{format_bytes(beside)} of other programs cannot leave it now; end one of them (moiety ps)"
    )


def refuse_gang(ledger: Ledger, tenants: Iterable[Tenant]) -> str:
    """Why these tenants cannot hold together, and so be a gang; empty if they can."""
    for gpu in ledger.specs:
        own = [(t, on) for t in tenants if (on := t.gpus.get(gpu))]
        need = sum(on.used_bytes for _, on in own)
        promised = promised_bytes(ledger, gpu)
        room = budget_bytes(ledger, gpu) - promised + sum(t.promised_bytes(on) for t, on in own)
        if len(own) > 1 and need > room:
            return f"together they have {format_bytes(need)} of {format_bytes(room)} on GPU {gpu}"
    return ""


def _own_bytes(tenant: Tenant, gpu: int, *, as_far_as_they_fit: bool = False) -> tuple[int, int]:
    """Bytes of a GPU that a tenant, or its gang, requires, and bytes that it was promised."""
    own = [on for mate in mates(tenant) if (on := mate.gpus.get(gpu))]
    promised = sum(m.promised_bytes(on) for m in mates(tenant) if (on := m.gpus.get(gpu)))
    need = sum(on.need_bytes if as_far_as_they_fit else on.required_bytes for on in own)
    return need, promised


def promised_bytes(ledger: Ledger, gpu: int) -> int:
    """Bytes that others cannot have: what tenants were promised or have pinned, and promises."""
    return promised_here_bytes(ledger, gpu) + ledger.promises[gpu].memory_bytes


def promised_here_bytes(ledger: Ledger, gpu: int) -> int:
    """The same without promises to programs that have not come."""
    return sum(tenant.promised_bytes(on) for tenant, on in ledger.on(gpu))


def _coming(ledger: Ledger, gpu: int) -> str:
    """What of it is kept for programs that have not come, in words; empty if nothing is."""
    kept = ledger.promises[gpu].memory_bytes
    return f" ({format_bytes(kept)} of them are kept for programs that will come)" if kept else ""


def budget_bytes(ledger: Ledger, gpu: int, more_residue: int = 0) -> int:
    """Bytes that may be promised: contexts reduce the capacity once the headroom is used up."""
    spec = ledger.specs[gpu]
    residue = sum(on.residue_bytes for _, on in ledger.on(gpu)) + more_residue
    return min(spec.capacity_bytes, spec.total_bytes - residue)


def _expected_bytes(ledger: Ledger, allocated: int, firm: int) -> int:
    """Bytes that a program is expected to write; of `firm` ones, all."""
    if ledger.overcommit <= 1:
        return allocated
    firm = min(firm, allocated)
    return firm + math.ceil((allocated - firm) / ledger.overcommit)


def _spill_bytes(
    ledger: Ledger, gpu: int, more: int = 0, residue: int = 0, beside: Tenant | None = None
) -> int:
    """Host memory that the data of all GPUs can need, with `more` expected bytes on this GPU.

    `beside`: what tenants other than this one freed just now counts as well.
    """
    spill = 0
    for each in ledger.specs:
        here = each == gpu
        coming = ledger.promises[each]
        allocated = coming.memory_bytes + (more if here else 0)
        for tenant, on in ledger.on(each):
            is_other = beside is not None and tenant is not beside
            own = on.reach_bytes if is_other else on.allocated_bytes
            firm = on.allocated_bytes if tenant.memory.pinned else tenant.kept_bytes(on)
            allocated += _expected_bytes(ledger, own, firm + on.managed_bytes)
        contexts = coming.residue_bytes + (residue if here else 0)
        spill += max(0, allocated - max(0, budget_bytes(ledger, each, contexts)))
    return spill
