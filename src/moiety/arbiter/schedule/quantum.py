"""How long a turn lasts, and how long a silence counts as idle, from what hand-offs cost."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

from moiety.arbiter.settings import Settings
from moiety.arbiter.state.tenant import Tenant

_SMOOTHING = 0.3
"""weight of the newest measurement of the link"""
_MEASURABLE_BYTES = 16 << 20
"""smaller moves say more about messages than about the link"""

_LEAST_FACTOR = 3.0
"""the shortest turn, over its own hand-off: a quarter of what a small part receives is lost"""

_EXTRA_MOVES = 5
"""a turn lasts longer for a spell that ends by itself by no more than so many moves one way"""
_AHEAD_TURNS = 3
"""and not if its holder is so much further ahead than who waits"""

_COSTS = 9
_ROUND_TURNS = 20
"""no round takes as long as more of the shortest turns only because there is a shortest"""


class Quantum:
    """Learns the rate of hand-offs and derives turn lengths from it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._link_bytes_per_s = settings.link_bytes_per_s
        self._costs_s: deque[float] = deque(maxlen=_COSTS)
        """of the last hand-offs for which nothing moved"""
        self._message_s = 0.0

    def moved(self, tenants: Sequence[Tenant], took_s: Sequence[float]) -> None:
        """Record that these are there now, together, and how long the coming of each took."""
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
        # What the driver pages it moves in the turn itself, and somebody else's out for it first.
        cost_s = took_s + 2 * self.move_s(paged)
        if cost_s <= 0:  # it came to a GPU that nobody used
            return
        if tenant.lease.is_moving:
            tenant.lease.costs_s.append(cost_s)
        else:
            self._costs_s.append(cost_s)
            self._message_s = statistics.median_low(self._costs_s)
            if tenant.lease.costs_s:
                tenant.lease.costs_s.popleft()
        tenant.lease.cost_s = (
            statistics.median_low(tenant.lease.costs_s) if tenant.lease.costs_s else 0.0
        )

    def handoff_s(self, tenant: Tenant) -> float:
        """What the coming of a tenant costs, as the last few did; 0 if nothing is known.

        The median, since one that a busy machine held up says nothing of the next. Where nothing
        moves it is messages that cost, the same for all.
        """
        return tenant.lease.cost_s or self._message_s

    def turn_s(self, tenant: Tenant) -> float:
        """How long it holds, if it is not idle before: as was set for it, or its part of a round.

        Once round, everybody has come once and had its part of the time. A round is as long as
        makes all those hand-offs a small part of it; so who is promised little has short turns,
        rather than others long waits. But a turn is longer than the hand-off it costs, and than
        the shortest turn, unless so many take turns that this alone made the round long.
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
        """Whether somebody said how long its turns are."""
        return bool(tenant.share.quantum_s or self.settings.quantum_s)

    def worthwhile_s(self, tenant: Tenant) -> float:
        """How long it has to run until its hand-off was a small part of it."""
        return min(self.settings.turn_factor * self.handoff_s(tenant), self.settings.turn_max_s)

    def visit_s(self, move_bytes: int) -> float:
        """How long one has to run that so much is moved in and out for."""
        return self.settings.turn_factor * 2 * self.move_s(move_bytes)

    def move_s(self, move_bytes: int) -> float:
        """How long it takes to move so many bytes one way."""
        return move_bytes / self._link_bytes_per_s

    def idle_s(self, holder: Tenant, silent_since_s: float, move_bytes: int) -> float:
        """Silence after which a holder gives way when `move_bytes` would have to move.

        At most as long as this hand-off and the one back cost; less where its last silences say
        that it does not pay to wait (idle_timeout.py). Late in a turn they cost less: the memory
        would be moved soon anyway, so only that part of them is lost which is left of the turn; and
        nothing is, if the turn would end in the middle of the next spell of work.
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

        Cutting it would cost two more hand-offs, and who waits would be in the way of the rest of
        it later. None where somebody said how long turns are.
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

    def tell_s(self, move_bytes: int) -> float:
        """Silence of which a holder is asked to tell: all that could be learned from."""
        return self.settings.idle_min_s if move_bytes else self.settings.idle_free_s


def _whole_s(holder: Tenant) -> float:
    """How long its turn is, as was decided when it began."""
    return max(1e-6, holder.lease.turn_ends_s - holder.since_s)
