"""How leases leave the arbiter: as soon as they are decided, and some a little before."""

from __future__ import annotations

from collections.abc import Callable

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import REVOKED

OnLease = Callable[[do.Grant | do.Revoke], None]
"""carries out what gives or takes a lease; it must not come back to the arbiter"""


class Leases:
    """Whoever waits for a lease need not wait for what else a step decides.

    With `on_lease`, a lease is given or taken at once, unless other instructions of the step come
    before it. And who comes, and lacks nothing but that one other has drained, is noted: its lease
    is given when that one says so, before the step that comes to the same result. Nothing else
    happened in between, because every other step notes it anew (docs/decisions/0020).
    """

    def __init__(self, ledger: Ledger, on_lease: OnLease | None) -> None:
        """Without `on_lease`, leases are instructions like all others."""
        self._ledger = ledger
        self._on_lease = on_lease
        self._next: dict[int, list[Tenant]] = {}
        """for each tenant that drains, those who come and wait for nothing else"""
        self._given: set[int] = set()
        """before the step that is going on"""

    def look_anew(self) -> None:
        """What was noted is no longer true, or about to be noted again."""
        self._next.clear()

    def note(self, tenant: Tenant, drains: Tenant) -> None:
        """`tenant` will have its lease when `drains` has drained, if time plays no part in that."""
        if not tenant.requests and tenant.gang is None and drains.gang is None:
            self._next.setdefault(drains.number, []).append(tenant)

    def ahead(self, event: ev.Drained) -> None:
        """Give the leases that wait for this and nothing else."""
        if self._on_lease is None or not (following := self._next.get(event.tenant)):
            return
        drains = self._ledger.tenants[event.tenant]
        if drains.state in REVOKED and drains.epoch == event.epoch:
            for tenant in following:
                self._given.add(tenant.number)
                self._on_lease(do.Grant(tenant.number, tenant.epoch + 1))

    def give(self, out: list[do.Instruction], tenant: Tenant) -> None:
        """Give a lease with the tenant's epoch, unless that was done ahead."""
        if tenant.number in self._given:
            self._given.remove(tenant.number)
        else:
            self._say(out, do.Grant(tenant.number, tenant.epoch))

    def take(self, out: list[do.Instruction], tenant: Tenant) -> None:
        """Take a lease back."""
        self._say(out, do.Revoke(tenant.number, tenant.epoch))

    def _say(self, out: list[do.Instruction], instruction: do.Grant | do.Revoke) -> None:
        if self._on_lease is None or out:
            out.append(instruction)
        else:
            self._on_lease(instruction)

    def check(self) -> None:
        """At the end of a step, all that was given ahead was decided."""
        assert not self._given, f"tenants {self._given} got leases that were not decided"
