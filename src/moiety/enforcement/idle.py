"""How long each tenant has done nothing on a GPU.

A call that passes the gate is work. A tenant that waits for its turn is not idle, nor is a tenant
inside a call.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Known:
    passes: int
    since_s: float
    is_named: bool = False


class Idleness:
    """The tenants of one node, by number."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def see(self, tenant: int, passes: int, now_s: float, *, works: bool) -> None:
        """Take a tenant's count of calls; `works`: it is inside a call, or waits for its turn."""
        known = self._known.get(tenant)
        if known is None or works or known.passes != passes:
            self._known[tenant] = _Known(passes, now_s)

    def forget(self, tenant: int) -> None:
        """Forget a tenant that ended."""
        self._known.pop(tenant, None)

    def for_s(self, tenant: int, now_s: float) -> float:
        """How long a tenant has done nothing; 0 for an unknown tenant."""
        known = self._known.get(tenant)
        return max(0.0, now_s - known.since_s) if known else 0.0

    def due(self, now_s: float, idle_s: float) -> list[int]:
        """The idle tenants to report now, once for each time that they fell idle."""
        due = []
        for tenant, known in self._known.items():
            if idle_s > 0 and not known.is_named and now_s - known.since_s >= idle_s:
                known.is_named = True
                due.append(tenant)
        return due
