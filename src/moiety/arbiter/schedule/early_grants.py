"""Leases that are granted as soon as one other tenant has drained, before the round decides it.

Each round notes the tenants that wait only for one other tenant to drain. When that tenant answers,
the lease comes first, and the round that follows comes to the same result: every round notes
afresh, so nothing else can have happened in between (docs/decisions/0020). Time alone changes
nothing before the arbiter's next look; an answer that comes later is decided in its round, since a
request that was held until then is decided with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import REVOKED


class EarlyGrants:
    """The tenants that wait for one other to drain, and for nothing else."""

    __slots__ = ("_granted", "_is_on", "_ledger", "_next")

    def __init__(self, ledger: Ledger, *, is_on: bool) -> None:
        """`is_on=False`: no lease comes before the round that decides it."""
        self._ledger = ledger
        self._is_on = is_on
        self._next: dict[int, list[Tenant]] = {}
        """For each tenant that drains, those that get their lease then."""
        self._granted: set[int] = set()
        """The tenants that got their lease before the round that is going on."""

    def clear(self) -> None:
        """Forget the noted tenants: the round notes them again, or they no longer qualify."""
        self._next.clear()

    def note(self, tenant: Tenant, drains: Tenant) -> None:
        """Note that `tenant` gets its lease when `drains` has drained."""
        if not tenant.requests and tenant.gang is None and drains.gang is None:
            self._next.setdefault(drains.number, []).append(tenant)

    def due(self, event: ev.Drained) -> list[do.Grant]:
        """The leases that wait for this event and for nothing else."""
        following = self._next.get(event.tenant)
        if not following or not self._is_on:
            return []
        drains = self._ledger.tenants[event.tenant]
        if drains.state not in REVOKED or drains.epoch != event.epoch:
            return []
        self._granted.update(tenant.number for tenant in following)
        return [do.Grant(tenant.number, tenant.next_epoch) for tenant in following]

    def noted(self) -> Iterable[tuple[Tenant, list[Tenant]]]:
        """Each tenant that drains, with those that get their lease then."""
        tenants = self._ledger.tenants
        return [(tenants[number], following) for number, following in self._next.items()]

    def confirm(self, tenant: Tenant) -> bool:
        """Whether a lease that is decided now was granted before; asked once for each lease."""
        if tenant.number in self._granted:
            self._granted.remove(tenant.number)
            return True
        return False

    def check(self) -> None:
        """Assert at the end of a round that it decided every lease that was granted before it."""
        granted, self._granted = self._granted, set()  # the next round begins anew
        assert not granted, f"tenants {granted} got leases that were not decided"
