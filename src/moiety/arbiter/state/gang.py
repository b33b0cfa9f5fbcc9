"""The tenants of a gang, and what they hold together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant, TenantGang


def mates(tenant: Tenant) -> Sequence[Tenant]:
    """A tenant's gang, itself included; itself if it is in none."""
    return tenant.gang.members if tenant.gang else (tenant,)


def are_mates(one: Tenant, other: Tenant) -> bool:
    """Whether two tenants are in one gang; a tenant in none is not its own mate."""
    return one.gang is not None and one.gang is other.gang


def gpus_of(tenant: Tenant) -> set[int]:
    """The GPUs that have to be held together."""
    if tenant.gang is None:
        return set(tenant.gpus)
    return {gpu for mate in tenant.gang.members for gpu in mate.gpus}


def firsts(tenants: Sequence[Tenant]) -> Iterator[Tenant]:
    """Of each gang, only the member that comes first among these tenants."""
    seen: list[TenantGang] = []
    for tenant in tenants:
        if tenant.gang is None:
            yield tenant
        elif tenant.gang not in seen:
            seen.append(tenant.gang)
            yield tenant


def units_of(
    on_gpu: Iterable[tuple[Tenant, Residency]], *, reach: bool
) -> Iterator[tuple[Tenant, int, int]]:
    """Tenants of a GPU with their required and promised bytes, each gang as one (ledger.py)."""
    sums: dict[str, tuple[Tenant, int, int]] = {}
    for tenant, on in on_gpu:
        freed = on.reach_bytes - on.allocated_bytes if reach else 0
        own = (tenant, on.required_bytes + freed, tenant.promised_bytes(on))
        if tenant.gang is None:
            yield own
        elif found := sums.get(tenant.gang.name):
            sums[tenant.gang.name] = (found[0], found[1] + own[1], found[2] + own[2])
        else:
            sums[tenant.gang.name] = own
    yield from sums.values()


def is_among(tenant: Tenant, others: Sequence[Tenant]) -> bool:
    """Whether it, or one of its gang, is one of these."""
    return tenant in others or any(are_mates(tenant, other) for other in others)


def level(gang: TenantGang) -> None:
    """Put all into the class of the member that is in the highest."""
    rank = max(member.share.rank for member in gang.members)
    for member in gang.members:
        member.usage.class_rank = member.usage.rank = rank
