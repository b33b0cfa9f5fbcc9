"""The state of a node during one round of deciding, with the sums kept up to date.

Every phase of a round (select.py, transfers.py) sees what those before it changed.
"""

from __future__ import annotations

import math

from moiety.arbiter import instructions as do
from moiety.arbiter.admission.credit import Credit
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.early_grants import EarlyGrants
from moiety.arbiter.schedule.fair_share import FairShare
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.schedule.rivals import (
    are_apart,
    block_each_other,
    counts_lag,
    movable_bytes,
    must_alternate,
)
from moiety.arbiter.schedule.time_limits import EXACT_S
from moiety.arbiter.settings import Settings
from moiety.arbiter.state.balance import Balance
from moiety.arbiter.state.gang import are_mates, gpus_of, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.state.visits import Visits
from moiety.arbiter.states import Cause

SOONEST_S = 0.005
"""The shortest time after which a holder is looked at again only because of its lag."""


class Round:
    """What a round knows and writes down.

    `out` receives the instructions; `deadline_s` says when to look again, if nothing happens.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        quantum: Quantum,
        fair_share: FairShare,
        now_s: float,
        out: list[do.Instruction],
        credit: Credit,
        early: EarlyGrants,
        visits: Visits,
    ) -> None:
        """A round at `now_s` that has looked at no tenant yet."""
        self.deadline_s: float | None = None
        self.ledger = ledger
        self.settings = settings
        self.quantum = quantum
        self.fair_share = fair_share
        self.now_s = now_s
        self.out = out
        self.credit = credit
        self.early = early
        self.visits = visits
        self.visitors: dict[int, set[int]] = {}
        """The tenants that may come for a visit, and the holders that each interrupts."""
        self.asking: list[Tenant] = []
        self.attaching: list[Tenant] = []
        """Tenants that attach a GPU once they have given their leases back (attaching.py)."""
        self.coming: list[Tenant] = []
        self.holding: list[Tenant] = []
        self.draining: list[Tenant] = []
        self.watched: list[Tenant] = []
        self.wanted_watches: set[int] = set()
        self.overdue: set[int] = set()
        """The numbers of starved tenants, which go next, however far the others are behind."""
        self.gives_way_s: dict[int, float] = {}
        """For each holder whose turn goes on: when it may have to give way to a queued tenant."""
        self.has_rivals = False
        self.has_limited = False
        self.balances: dict[int, Balance] = {}
        """The sums of each GPU, which follow every change; empty before `begin` (decide.py)"""

    def expect(self, tenant: Tenant, within_s: float) -> None:
        """Note that a tenant was given an order just now, and when the order becomes overdue."""
        tenant.drain.told_s = self.now_s
        tenant.drain.due_s = self.now_s + within_s
        tenant.drain.look_s = self.now_s + self.settings.look_after_s
        self.wake_at(min(tenant.drain.due_s, tenant.drain.look_s))

    def wake_at(self, when_s: float) -> None:
        """Have the next round no later than this."""
        if self.deadline_s is None or when_s < self.deadline_s:
            self.deadline_s = when_s

    @property
    def is_calm(self) -> bool:
        """Whether no tenant is restoring, draining, queued or asking, and none take turns."""
        return not (
            self.has_rivals or self.coming or self.draining or self.ledger.queue
        ) and not any(tenant.requests for tenant in self.asking)

    def are_rivals(self, one: Tenant, other: Tenant) -> bool:
        """Whether two tenants must take turns even if both fit.

        That is so if their classes differ and one is of the latency class, or was promised a part
        of the time: work that the other has submitted would be in its way. Within a class, promises
        need turns only where not all tenants fit (side_by_side.py), or the GPU's division of its
        time is not equal.
        """
        apart = are_apart(one, other)
        return (
            (apart or must_alternate(one, other))
            and one is not other
            and not are_mates(one, other)
            and not one.gpus.keys().isdisjoint(other.gpus.keys())
            and (
                apart
                or one.usage.rank != other.usage.rank
                or one.share.latency != other.share.latency
                or not self.fair_share.crowded.isdisjoint(one.gpus.keys() & other.gpus.keys())
            )
        )

    def misses(self, tenant: Tenant) -> bool:
        """Whether bytes have to be restored before a tenant can hold a lease."""
        return any(tenant.missing_bytes(gpu) for gpu in tenant.gpus)

    def needs_bytes(self, tenant: Tenant, gpu: int) -> int:
        """Bytes that a tenant and its gang have on a GPU only while they hold."""
        return sum(movable_bytes(mate, on) for mate in mates(tenant) if (on := mate.gpus.get(gpu)))

    def brings_bytes(self, tenant: Tenant, gpu: int) -> int:
        """Bytes that a tenant and its gang would add to a GPU if they held; 0 if they do."""
        return sum(
            movable_bytes(mate, on)
            for mate in mates(tenant)
            if not mate.stays and (on := mate.gpus.get(gpu))
        )

    def left_bytes(self, tenant: Tenant, gpu: int) -> int:
        """Bytes left of a GPU once `tenant` is resident beside the tenants that stay."""
        balance = self.balances[gpu]
        return balance.capacity_bytes - balance.staying_bytes - self.brings_bytes(tenant, gpu)

    def fits(self, tenant: Tenant) -> bool:
        """Whether a tenant and its gang fit beside the tenants that stay, on all their GPUs."""
        return all(
            self.left_bytes(tenant, gpu) >= 0 for gpu in gpus_of(tenant)
        ) and not self.rivals(tenant)

    def spare_bytes(self, gpu: int) -> int:
        """Bytes free on a GPU beyond what restoring and growing tenants still lack."""
        spare = self.balances[gpu].free_bytes
        for tenant in self.coming:
            if on := tenant.gpus.get(gpu):
                spare -= on.need_bytes - on.charged_bytes
        return spare - sum(t.pending_bytes(gpu) for t in self.asking if t.is_growing)

    def rivals(self, tenant: Tenant) -> list[Tenant]:
        """Holders and restoring tenants that must not hold with it, even if memory suffices."""
        if not self.has_rivals:
            return []
        others = self.holding + self.coming
        return [o for o in others if any(self.are_rivals(o, mate) for mate in mates(tenant))]

    def drains_for(self, tenant: Tenant) -> list[Tenant]:
        """The rivals whose last work is still finishing."""
        if not self.has_rivals:
            return []
        return [o for o in self.draining if self.are_rivals(o, tenant) and not o.drain.silent]

    def gives(self, holder: Tenant, gpu: int) -> int:
        """Bytes for which there is room once a holder and its gang leave."""
        return sum(
            movable_bytes(mate, on)
            for mate in mates(holder)
            if mate.stays and (on := mate.gpus.get(gpu))
        )

    def over_bytes(self, gpu: int) -> int:
        """Bytes by which holders and restoring tenants exceed a GPU."""
        balance = self.balances[gpu]
        return balance.staying_bytes - balance.pending_bytes - balance.capacity_bytes

    def move_bytes(self, tenant: Tenant) -> int:
        """Bytes that would have to move, one way, before `tenant` and its gang could run."""
        move = 0
        if tenant.gang is not None:
            for gpu in gpus_of(tenant):
                here = [(m, on) for m in mates(tenant) if (on := m.gpus.get(gpu))]
                need = sum(on.need_bytes - on.charged_bytes for _, on in here)
                missing = sum(mate.missing_bytes(gpu) for mate, _ in here)
                move += max(missing, need - self.balances[gpu].free_bytes)
            return max(0, move)
        for gpu, on in tenant.gpus.items():
            need = on.need_bytes - on.charged_bytes
            move += max(tenant.missing_bytes(gpu), need - self.balances[gpu].free_bytes)
        return max(0, move)

    def turn_is_over(self, tenant: Tenant, waiting: Tenant | None = None) -> bool:
        """Whether a holder may be revoked, for `waiting` if it is given.

        A tenant of a higher class need not wait; one of a lower class waits for silence. Within a
        class, if a part of the time was requested, a turn goes on while its holder is further
        behind.
        """
        if self.now_s < max(mate.lease.kept_until_s for mate in mates(tenant)):
            return False
        move_bytes = self.move_bytes(waiting) if waiting else 0
        if self.now_s >= self.idle_at_s(tenant, move_bytes):
            return True
        if waiting is not None and block_each_other(tenant, waiting):
            silent = all(
                mate.usage.silent_since_s is not None for mate in mates(tenant) if mate.holds
            )
            if silent and waiting.usage.rank >= tenant.usage.rank:
                return True
        if waiting is not None and waiting.usage.rank != tenant.usage.rank:
            return waiting.usage.rank > tenant.usage.rank
        if waiting is not None and tenant.number in self.visitors.get(waiting.number, ()):
            return True
        if self.now_s < self.turn_ends_s(tenant, waiting):
            return False
        if waiting is None or waiting.number in self.overdue or not counts_lag(tenant, waiting):
            return True
        return tenant.lag_s <= waiting.lag_s + EXACT_S

    def by_turn(self, tenant: Tenant) -> tuple[int, bool, float]:
        """Sort key: the lowest class first, then silent tenants, then the longest holders."""
        return tenant.usage.rank, tenant.usage.silent_since_s is None, tenant.since_s

    def idle_at_s(self, holder: Tenant, move_bytes: int) -> float:
        """When a holder counts as idle, unless it submits something before; it may be in the past.

        A gang counts as idle once all its members do.
        """
        return max(self._idle_at_s(mate, move_bytes) for mate in mates(holder))

    def _idle_at_s(self, holder: Tenant, move_bytes: int) -> float:
        # a holder that waits for memory is silent, but not idle
        if holder.usage.silent_since_s is None or holder.is_growing:
            return math.inf
        since_s = holder.usage.silent_since_s
        if holder.number in self.visits.under_way:
            return since_s + self.settings.idle_beside_s
        return since_s + self.quantum.idle_s(holder, since_s, move_bytes)

    def turn_ends_s(self, holder: Tenant, waiting: Tenant | None) -> float:
        """When a turn ends: a little later, where its holder is about to fall silent by itself.

        A turn that was over before `waiting` was queued gets its extra time from that moment
        (busy_period.py).
        """
        return max(self._turn_ends_s(mate, waiting) for mate in mates(holder))

    def _turn_ends_s(self, holder: Tenant, waiting: Tenant | None) -> float:
        ends_s = holder.lease.turn_ends_s
        if waiting is None:
            return ends_s
        from_s = max(ends_s, waiting.lease.waits_since_s)
        extra_s = self.quantum.extra_s(holder, waiting, from_s, self.move_bytes(waiting))
        return from_s + extra_s if extra_s else ends_s

    def revoke(self, tenant: Tenant) -> None:
        """Revoke a tenant's lease, and those of its gang."""
        self.tell_to_drain(tenant)
        self.begin_drain(tenant)

    def tell_to_drain(self, tenant: Tenant) -> None:
        """Send the revokes of a tenant and its gang; `begin_drain` follows."""
        for mate in mates(tenant):
            if mate.holds:
                self.out.append(do.Revoke(mate.number, mate.epoch))

    def begin_drain(self, tenant: Tenant) -> None:
        """Note that a tenant and its gang were told to drain."""
        for mate in [mate for mate in mates(tenant) if mate.holds]:
            self._begin_drain(mate)

    def _begin_drain(self, tenant: Tenant) -> None:
        silent_s = tenant.usage.silent_since_s
        tenant.usage.busy_periods.pause(self.now_s if silent_s is None else silent_s)
        self.holding.remove(tenant)
        self.draining.append(tenant)
        began_s = tenant.drain.told_s
        settings = self.settings
        self.transition(tenant, Cause.REVOKED)
        self.expect(tenant, settings.revoke_deadline_s)
        self.wake_at(self.now_s + settings.reopen_after_s)
        if self.now_s > tenant.lease.kept_until_s + settings.reopen_after_s:
            tenant.drain.reopens = 0
        if tenant.drain.reopens and not tenant.drain.gave_up:  # the same hand-off goes on
            tenant.drain.told_s = began_s
            tenant.drain.due_s = began_s + settings.revoke_deadline_s

    def watch(self, holder: Tenant, move_bytes: int, waiting: Tenant | None = None) -> None:
        """Look again at a holder whose turn goes on when its turn ends, or when it falls idle."""
        for mate in mates(holder):
            if mate.holds:
                self._watch(mate, move_bytes, waiting)

    def _watch(self, holder: Tenant, move_bytes: int, waiting: Tenant | None) -> None:
        ends_s = max(mate.lease.turn_ends_s for mate in mates(holder))
        is_over = self.now_s >= ends_s
        if is_over:
            ends_s = self.turn_ends_s(holder, waiting)
        by_lag = waiting is not None and waiting.number not in self.overdue
        if (
            waiting
            and by_lag
            and waiting.usage.rank == holder.usage.rank
            and counts_lag(holder, waiting)
        ):
            ahead_s = holder.lag_s - waiting.lag_s
            if ahead_s > EXACT_S:  # both move towards each other while it holds
                rate = sum(mate.usage.rate for mate in mates(holder))
                pace = max(0.01, (rate or 1.0) - holder.usage.part + waiting.usage.part)
                ends_s = max(ends_s, self.now_s + max(SOONEST_S, ahead_s / pace))
        if self.now_s < ends_s:
            self.wake_at(ends_s)
        if waiting is None or waiting.usage.rank >= holder.usage.rank:  # else at idle
            first_s = self.gives_way_s.get(holder.number, ends_s)
            self.gives_way_s[holder.number] = min(ends_s, first_s)
        self.wanted_watches.add(holder.number)
        if holder.usage.silent_since_s is not None:
            if self.now_s < (idle_at_s := self.idle_at_s(holder, move_bytes)) < math.inf:
                self.wake_at(idle_at_s)
            return
        # any pause ends a turn that is over, or a turn in which both wait for memory
        any_pause = is_over or (waiting is not None and block_each_other(holder, waiting))
        tell_s = self.quantum.tell_s(holder, 0 if any_pause else move_bytes)
        if holder.number in self.visits.under_way:
            tell_s = min(tell_s, self.settings.idle_beside_s)
        if not holder.usage.watched_s or tell_s < holder.usage.watched_s / 2:
            holder.usage.watched_s = tell_s
            self.out.append(do.SetIdleTimeout(holder.number, tell_s))

    def watch_crowded(self) -> None:
        """Watch the holders of each GPU whose tenants have too many bytes to hold together.

        So their busy and idle times are known even while no tenant is queued, and a tenant that
        comes during a silence need not wait for the part that has passed.
        """
        for tenant in self.holding:
            if tenant.number in self.wanted_watches:
                continue
            if not any(self.balances[gpu].is_crowded for gpu in tenant.gpus):
                continue
            self.wanted_watches.add(tenant.number)
            tell_s = self.settings.idle_min_s
            if tenant.usage.silent_since_s is None and tenant.usage.watched_s != tell_s:
                tenant.usage.watched_s = tell_s
                self.out.append(do.SetIdleTimeout(tenant.number, tell_s))

    def end_watches(self) -> None:
        """Stop the watches that this round did not ask for."""
        for tenant in self.watched:
            is_watched = tenant.usage.watched_s or tenant.usage.silent_since_s is not None
            if is_watched and tenant.number not in self.wanted_watches and tenant.stays:
                tenant.usage.watched_s = 0.0
                tenant.usage.silent_since_s = None
                self.out.append(do.SetIdleTimeout(tenant.number, 0.0))

    def transition(self, tenant: Tenant, cause: Cause) -> None:
        """Change the state of a tenant, and the sums with it."""
        self.ledger.transition(tenant, cause, self.now_s)
