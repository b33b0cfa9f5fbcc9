"""Which tenants cannot hold a GPU together, and which of them may hold it for longer."""

from __future__ import annotations

from moiety.arbiter.schedule.fair_share import EQUAL
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import Apart


def counts_lag(holder: Tenant, waiting: Tenant) -> bool:
    """Whether a turn may last longer because its holder is further behind than `waiting`.

    Tenants with equal parts of the time need no more than the order of their turns. A holder that
    waits for more memory does not fall behind meanwhile.
    """
    return (holder.usage.by_lag or waiting.usage.by_lag) and not waiting.holds


def must_alternate(one: Tenant, other: Tenant) -> bool:
    """Whether two tenants that meet on a GPU, and are no mates, would be rivals there."""
    return (
        one.usage.timed
        or other.usage.timed
        or one.share.latency != other.share.latency
        or (one.usage.weighed and other.usage.weighed and not are_equal(one, other))
    ) and not (one.is_beyond or other.is_beyond)


def are_equal(one: Tenant, other: Tenant) -> bool:
    """Whether two tenants have the same part of the time."""
    return abs(one.usage.part - other.usage.part) <= EQUAL * one.usage.part


def are_apart(one: Tenant, other: Tenant) -> bool:
    """Whether a GPU that both use gives one of them more than an equal part beside the other."""
    first, second = one.usage.apart, other.usage.apart
    if not (first or second):
        return False
    is_unequal = first is second or Apart.OF_ALL in (first, second)
    return is_unequal and not (one.is_beyond or other.is_beyond)


def block_each_other(holder: Tenant, waiting: Tenant) -> bool:
    """Whether both hold and neither goes on before it has more memory.

    Then the holder does nothing with its turn, however long that still lasts.
    """
    return waiting.is_growing and any(mate.is_growing for mate in mates(holder))


def movable_bytes(tenant: Tenant, on: Residency) -> int:
    """Bytes of a tenant that are on a GPU only while it holds."""
    return on.need_bytes - tenant.staying_bytes(on)
