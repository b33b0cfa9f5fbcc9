"""How long a turn lasts, and how long a silence counts as idle, from what hand-offs cost."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

from moiety.arbiter.settings import Settings
from moiety.arbiter.state.idle_timeout import SOON
from moiety.arbiter.state.tenant import Tenant

_SMOOTHING = 0.3
"""The weight of the newest measurement of the link."""
_MEASURABLE_BYTES = 16 << 20
"""Smaller moves say more about messages than about the link."""

_LEAST_FACTOR = 3.0
"""The shortest turn, in hand-offs: hand-offs then take a quarter of the time of a small part."""

_EXTRA_MOVES = 5
"""The most that a turn lasts longer for a busy period that ends by itself, in one-way moves."""
_AHEAD_TURNS = 3
"""A turn does not last longer if its holder is ahead of the waiting tenant by this many turns."""

_COSTS = 9
_ROUND_TURNS = 20
"""The minimum of a turn makes no round longer than this number of shortest turns."""


class Quantum:
    """Learns the rate of hand-offs and derives turn lengths from it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._link_bytes_per_s = settings.link_bytes_per_s
        self._costs_s: deque[float] = deque(maxlen=_COSTS)
        """Costs of the last hand-offs for which no memory moved."""
        self.message_s = 0.0
        """The median cost of a hand-off for which no memory moves."""

    def moved(self, tenants: Sequence[Tenant], took_s: Sequence[float]) -> None:
        """Record that these tenants became resident together, and how long each hand-off took."""
        gpus = {gpu for tenant in tenants for gpu in tenant.gpus}
        moved = sum(
            t.memory.coming_bytes - min(t.memory.coming_bytes, t.managed_bytes) for t in tenants
        )
        longest_s = max(took_s, default=0.0)
        if len(tenants) > 1:
            moved //= max(1, len(gpus))  # each over a link of its own
        if moved >= _MEASURABLE_BYTES and longest_s > 0:
            rate = moved / longest_s
            self._link_bytes_per_s += _SMOOTHING * (rate - self._link_bytes_per_s)
        for tenant, own_s in zip(tenants, took_s, strict=True):
            self._cost(tenant, own_s)

    def _cost(self, tenant: Tenant, took_s: float) -> None:
        paged = min(tenant.memory.coming_bytes, tenant.managed_bytes)
        tenant.lease.handoffs_s += took_s
        # Managed bytes move during the turn itself, after the driver paged out another tenant's.
        cost_s = took_s + 2 * self.move_s(paged)
        if cost_s <= 0:  # no other tenant used the GPU
            return
        if tenant.lease.is_moving:
            tenant.lease.costs_s.append(cost_s)
        else:
            self._costs_s.append(cost_s)
            self.message_s = statistics.median_low(self._costs_s)
            if tenant.lease.costs_s:
                tenant.lease.costs_s.popleft()
        tenant.lease.cost_s = (
            statistics.median_low(tenant.lease.costs_s) if tenant.lease.costs_s else 0.0
        )

    def handoff_s(self, tenant: Tenant) -> float:
        """The cost of a hand-off to a tenant, the median of its last few; 0 if none is known.

        It is the median because a hand-off on a busy machine says nothing about the next. A
        hand-off that moves no memory costs only messages, the same for all tenants.
        """
        return tenant.lease.cost_s or self.message_s

    def turn_s(self, tenant: Tenant) -> float:
        """How long it holds, if it is not idle before: the quantum set for it, or a round's part.

        In a round, every tenant has one turn and receives its part of the time. The round is long
        enough for its hand-offs to be a small part of it. A tenant that is promised little has
        short turns, and the others do not wait long. But a turn is longer than its hand-off, and
        than the shortest turn, unless that minimum alone would make the round long.
        """
        if quantum_s := tenant.share.quantum_s or self.settings.quantum_s:
            return quantum_s
        handoff_s = self.handoff_s(tenant)
        factor = self.settings.turn_factor
        whole_s = tenant.usage.part * (1 + factor) * tenant.lease.round_s - handoff_s
        least_s = self.least_s(handoff_s)
        shortest_s = self.settings.turn_min_s * min(1.0, tenant.usage.part * _ROUND_TURNS)
        return max(shortest_s, min(max(whole_s, least_s), self.settings.turn_max_s))

    def least_s(self, handoff_s: float) -> float:
        """The shortest turn that is worth a hand-off of that cost."""
        return min(self.settings.turn_factor, _LEAST_FACTOR) * handoff_s

    def has_quantum(self, tenant: Tenant) -> bool:
        """Whether a quantum is set for the tenant, or for all."""
        return bool(tenant.share.quantum_s or self.settings.quantum_s)

    def worthwhile_s(self, tenant: Tenant) -> float:
        """How long it has to run until its hand-off is a small part of the turn."""
        return min(self.settings.turn_factor * self.handoff_s(tenant), self.settings.turn_max_s)

    def visit_s(self, move_bytes: int) -> float:
        """How long a tenant has to run that is worth moving `move_bytes` in and out."""
        return self.settings.turn_factor * 2 * self.move_s(move_bytes)

    def move_s(self, move_bytes: int) -> float:
        """How long it takes to move bytes one way."""
        return move_bytes / self._link_bytes_per_s

    def idle_s(self, holder: Tenant, silent_since_s: float, move_bytes: int) -> float:
        """The silence after which a holder gives way when `move_bytes` would have to move.

        It is at most what this hand-off and the one back cost; less where the last silences show
        that it does not pay to wait (idle_timeout.py). Late in a turn hand-offs cost less: the
        memory would move soon anyway, so they cost only the part of the turn that is left. They
        cost nothing if the turn would end in the middle of the next busy period.
        """
        if move_bytes == 0:
            return self.settings.idle_free_s
        move_s = self.move_s(move_bytes)
        left_s = holder.lease.turn_ends_s - silent_since_s
        lost_s = 0.0
        if left_s > 0 and holder.usage.busy_periods.shortest_s <= left_s + _EXTRA_MOVES * move_s:
            lost_s = 2 * move_s * min(1.0, left_s / _whole_s(holder))
        return holder.usage.idle_periods.patience_s(self.settings.idle_min_s, lost_s)

    def extra_s(self, holder: Tenant, waiting: Tenant, from_s: float, move_bytes: int) -> float:
        """How much longer than `from_s` a turn lasts because its holder's work ends by itself.

        Cutting that work short would cost two more hand-offs, and the waiting tenant would be in
        the way of its rest later. 0 where a quantum is set.
        """
        if (
            holder.usage.silent_since_s is not None
            or holder.lease.is_guest
            or self.has_quantum(holder)
        ):
            return 0.0
        if waiting.lag_s - holder.lag_s > _AHEAD_TURNS * _whole_s(holder):
            return 0.0
        return holder.usage.busy_periods.rest_s(from_s, _EXTRA_MOVES * self.move_s(move_bytes))

    def tell_s(self, holder: Tenant, move_bytes: int) -> float:
        """The silence that a holder is asked to report: long enough to learn from."""
        if not move_bytes:
            return self.settings.idle_free_s
        least_s = self.settings.idle_min_s
        sure = holder.usage.idle_periods.is_sure(least_s, 2 * self.move_s(move_bytes))
        return SOON * least_s if sure else least_s


def _whole_s(holder: Tenant) -> float:
    """The length of the holder's turn, as it was decided when the turn began."""
    return max(1e-6, holder.lease.turn_ends_s - holder.since_s)
