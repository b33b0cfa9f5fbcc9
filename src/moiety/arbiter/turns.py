"""How long a turn lasts, and how long a silence counts as idle, from what hand-offs cost."""

from __future__ import annotations

from moiety.arbiter.settings import Settings
from moiety.arbiter.tenant import Tenant

_SMOOTHING = 0.3
"""weight of the newest measurement of the link"""
_MEASURABLE_BYTES = 16 << 20
"""smaller moves say more about messages than about the link"""


class Turns:
    """Learns the rate of hand-offs and derives turn lengths from it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._link_bytes_per_s = settings.link_bytes_per_s

    def moved(self, tenant: Tenant, now_s: float) -> None:
        """Record that `tenant` is there now: it came from its `since_s` on."""
        tenant.handoff_s = now_s - tenant.since_s
        tenant.handoffs_s += tenant.handoff_s
        if tenant.coming_bytes >= _MEASURABLE_BYTES and tenant.handoff_s > 0:
            rate = tenant.coming_bytes / tenant.handoff_s
            self._link_bytes_per_s += _SMOOTHING * (rate - self._link_bytes_per_s)

    def turn_s(self, tenant: Tenant) -> float:
        """Turn length: as was set for it, or long enough that its hand-off is a small part."""
        if quantum_s := tenant.share.quantum_s or self.settings.quantum_s:
            return quantum_s
        return max(self.settings.turn_min_s, self.worthwhile_s(tenant))

    def worthwhile_s(self, tenant: Tenant) -> float:
        """How long it has to run until its hand-off was a small part of it."""
        return min(self.settings.turn_factor * tenant.handoff_s, self.settings.turn_max_s)

    def move_s(self, move_bytes: int) -> float:
        """How long it takes to move so many bytes one way."""
        return move_bytes / self._link_bytes_per_s

    def idle_s(self, move_bytes: int) -> float:
        """Silence after which a holder gives way when `move_bytes` would have to move.

        As long as this hand-off and the one back cost: at most twice the best that could be
        done by somebody who knows the future (the ski-rental bound).
        """
        if move_bytes == 0:
            return self.settings.idle_free_s
        return max(self.settings.idle_min_s, 2 * self.move_s(move_bytes))
