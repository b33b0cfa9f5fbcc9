"""The GPU time that each tenant received and was due, in GPU-seconds, hand-offs included.

Every moment of a GPU is divided equally among the tenants that occupy it: holders, draining tenants
and restoring tenants, because no other tenant can use that time. The time that the tenants of a
class received together is due to each by its part; a tenant's lag is what it was due less what it
received. The lags of a class on a GPU always add up to 0, so a new tenant has the lag 0. A tenant
that was idle keeps its lag, faded in the meantime: a moment of silence costs no tenant its place,
and no tenant saves up time while it is idle. The others make up for the lag that a tenant brings or
takes along (docs/decisions/0005).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.class_budget import ClassBudgets, pay_promises
from moiety.arbiter.schedule.parts import parts, weights
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.state.gang import firsts, level, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State
from moiety.model.share import Share

RECENT_S = 5.0
"""The time over which the recently received part is averaged."""
EXACT_S = 1e-6
"""Shorter times do not matter."""
_USES_NOTHING = frozenset({State.IDLE, State.QUEUED, State.STOPPED})
_LAG_TURNS = 4
_FADES_S = 2.0
"""After this idle time, a third of a lag is left."""
_SAVED_TURNS = 4
_EQUAL = 0.02
"""Parts that differ by less than this part of them are equal."""
_WINDOW_HANDOFFS = 5.0
_SOONEST_S = 1e-4
"""The next round for a lag or a limit is no sooner than after this time."""
_STILL = 1e-9
"""A lag or a budget that changes more slowly does not change."""

Members = Sequence[tuple[Tenant, float]]
"""The tenants of a class that want time on a GPU, with their parts of the time of the class."""


class FairShare:
    """Keeps every tenant's lag, budget and receipts up to date. It decides nothing."""

    def __init__(self, ledger: Ledger, quantum: Quantum) -> None:
        self._ledger = ledger
        self._quantum = quantum
        self._now_s = 0.0
        self.class_budgets = ClassBudgets(ledger)
        self._classes: dict[tuple[int, int], Members] = {}
        """For each GPU and rank: the tenants that want its time, with their parts."""
        self.crowded: set[int] = set()
        """GPUs on which the tenants that want time do not fit together (side_by_side.py)."""
        self.sitters: dict[int, Tenant] = {}
        """By number: the tenants that sit out."""
        self.uneven: set[tuple[int, int]] = set()
        """The classes whose parts are not equal."""
        self._limited: set[tuple[int, int]] = set()
        """The classes of several tenants in which a limit counts."""
        self._even: set[tuple[int, int]] = set()
        """The classes whose lags meant nothing lately, since their parts were equal."""
        self.forward_from_s: dict[int, float] = {}
        """For each GPU: from when on a starved tenant may go next (starvation.py)."""

    def advance(self, now_s: float) -> None:
        """Charge the time since the last step to the tenants that have occupied the GPUs since."""
        elapsed_s = now_s - self._now_s
        self._now_s = now_s
        if elapsed_s <= 0:
            return
        for (gpu, rank), members in self._classes.items():
            if len(members) > 1:
                pay_promises(members, gpu, self._others(gpu, rank) * elapsed_s)
                self._divide(gpu, members, elapsed_s)
        if self.class_budgets:
            self.class_budgets.advance(elapsed_s, self._owed_most_s)
        kept = math.exp(-elapsed_s / RECENT_S)
        for tenant in self._ledger.tenants.values():
            rate = tenant.usage.rate
            tenant.usage.recent = rate + (tenant.usage.recent - rate) * kept
            tenant.usage.received_s += rate * elapsed_s
            if tenant.share.gpu_limit < 1:
                self._budget(tenant, elapsed_s)

    def refresh(self) -> None:
        """Find every tenant's part anew, if the tenants that want time or their shares changed."""
        if not (self._ledger.parts_changed or self._ledger.members_changed):
            return
        self._ledger.parts_changed = False
        self.class_budgets.refresh()
        found: dict[tuple[int, int], list[Tenant]] = {}
        for tenant in self._ledger.tenants.values():
            tenant.usage.part = 1.0
            if tenant.state is not State.IDLE:
                for gpu in tenant.gpus:
                    found.setdefault((gpu, tenant.usage.rank), []).append(tenant)
        before, self._classes = self._classes, {}
        self.uneven.clear()
        self._limited.clear()
        for key, members in found.items():
            if len(members) == 1:  # it gets all the time of its class
                (tenant,) = members
                tenant.gpus[key[0]].lag_s, tenant.gpus[key[0]].part = 0.0, 1.0
                self._classes[key] = [(tenant, 1.0)]
                continue
            pairs = list(
                zip(members, parts([t.share for t in members], weights(members)), strict=True)
            )
            self._classes[key] = pairs
            self._look_at(key, pairs)
            for tenant, part in pairs:
                tenant.gpus[key[0]].part = part
                whole = part  # a gang's part is that of all members, who have one turn
                if tenant.gang is not None:
                    whole = sum(other for mate, other in pairs if mate.gang is tenant.gang)
                tenant.usage.part = min(tenant.usage.part, whole)
            there = {tenant.number for tenant, _ in before.get(key, ())}
            stayed = [pair for pair in pairs if pair[0].number in there]
            # A promise loses nothing to tenants that come and go, if others can pay.
            unpromised = [pair for pair in stayed if not pair[0].share.gpu]
            _balance(key[0], pairs, unpromised or stayed or pairs)

    def _look_at(self, key: tuple[int, int], pairs: Members) -> None:
        """Note whether the parts of a class are equal, and whether a limit counts there."""
        if any(tenant.share.gpu_limit < 1 for tenant, _ in pairs):
            self._limited.add(key)
        if all(abs(part * len(pairs) - 1.0) <= _EQUAL for _, part in pairs):
            self._even.add(key)
            return
        self.uneven.add(key)
        if key in self._even and key[0] not in self.crowded:
            self._even.discard(key)
            window_s = self.window_s()
            for tenant, _ in pairs:
                on = tenant.gpus[key[0]]
                on.lag_s = min(window_s, max(-window_s, on.lag_s))

    @property
    def has_windows(self) -> bool:
        """Whether a class has unequal parts, or a limit, so that tenants may sit out or pause."""
        return bool(self.uneven or self._limited)

    def window_s(self) -> float:
        """The GPU time by which a tenant that sits out is ahead at first."""
        return max(self._quantum.settings.window_min_s, _WINDOW_HANDOFFS * self._quantum.message_s)

    def side_by_side(self, *, limited: bool = False) -> Iterator[tuple[tuple[int, int], Members]]:
        """The classes with unequal parts on GPUs on which all fit; `limited`: those with limits."""
        for key in self.uneven | self._limited if limited else self.uneven:
            if key[0] not in self.crowded:
                yield key, self._classes[key]

    def forget_turns(self, gpus: set[int]) -> None:
        """Bound the lags on GPUs where tenants took turns, and fit from now on."""
        for key in self._classes:
            if key[0] in gpus:
                self._even.add(key)
                self._ledger.parts_changed = True

    def next_change_s(self) -> float | None:
        """When a tenant has to sit out, or may come back, if nothing happens; None: never."""
        first_s: float | None = None
        window_s = self.window_s()
        for _, members in self.side_by_side():
            for tenant, _ in members:
                after_s = _until_s(tenant, self._pace(tenant), window_s)
                if after_s is not None and (first_s is None or after_s < first_s):
                    first_s = after_s
        return None if first_s is None else self._now_s + max(_SOONEST_S, first_s)

    def _pace(self, tenant: Tenant) -> float:
        """How much the lag of a tenant, or of its gang, grows in a second; negative: it shrinks."""
        pace, gpus = 0.0, set()
        for mate in mates(tenant):
            for gpu, on in mate.gpus.items():
                gpus.add(gpu)
                members = self._classes.get((gpu, mate.usage.rank), ())
                whole = sum(other.gpus[gpu].rate for other, _ in members)
                pace += on.part * whole - on.rate if len(members) > 1 else 0.0
        return pace / max(1, len(gpus))

    def round_s(self, tenant: Tenant) -> float:
        """The cost of one hand-off to each tenant of its class.

        A tenant without a measured hand-off counts as much as this one.
        """
        own_s = self._quantum.handoff_s(tenant)
        return max(
            (
                sum(
                    self._quantum.handoff_s(other) or own_s
                    for other in firsts([member for member, _ in members])
                )
                for gpu in tenant.gpus
                if (members := self._classes.get((gpu, tenant.usage.rank)))
            ),
            default=own_s,
        )

    def once_round_s(self, tenant: Tenant) -> float:
        """How long a round takes, in which each tenant of its class has one turn."""
        return max(
            (
                sum(
                    self._quantum.turn_s(other) + self._quantum.handoff_s(other)
                    for other in firsts([member for member, _ in members])
                )
                for gpu in tenant.gpus
                if (members := self._classes.get((gpu, tenant.usage.rank)))
            ),
            default=0.0,
        )

    def wake(self, tenant: Tenant) -> None:
        """Fade the lag of a tenant that wants a lease again by the time that it was idle."""
        slept_s = max(0.0, self._now_s - tenant.since_s)
        for on in tenant.gpus.values():
            on.lag_s *= math.exp(-slept_s / _FADES_S)
        tenant.usage.budget_s = min(tenant.usage.budget_s, self.burst_s(tenant))

    def promise(self, tenant: Tenant, share: Share) -> None:
        """Change a tenant's share; within a new class, it starts as if it were new."""
        before = [(mate, mate.usage.class_rank) for mate in mates(tenant)]
        tenant.share, tenant.usage.timed = share, share.is_timed
        tenant.usage.class_rank = tenant.usage.rank = share.rank
        if tenant.gang is not None:
            level(tenant.gang)
        for mate, rank in before:
            if mate.usage.class_rank != rank:
                for on in mate.gpus.values():
                    on.lag_s = 0.0
        if share.gpu_limit < 1:
            burst_s = self.burst_s(tenant)
            tenant.usage.budget_s = (
                min(tenant.usage.budget_s, burst_s) if tenant.usage.paused else burst_s
            )
        else:
            tenant.usage.budget_s, tenant.usage.paused = 0.0, False
        self._ledger.members_changed = True
        self._ledger.touch(tenant)

    def burst_s(self, tenant: Tenant) -> float:
        """The GPU time with which a tenant with a limit can run for its part of a window."""
        limit = tenant.share.gpu_limit
        return limit * (1 - limit) * self._quantum.settings.limit_window_s

    def paused_until_s(self, tenant: Tenant) -> float:
        """When a tenant whose limit is used up may go on."""
        missing_s = self.burst_s(tenant) - tenant.usage.budget_s
        return self._now_s + max(EXACT_S, missing_s / tenant.share.gpu_limit)

    def next_pause_s(self) -> float | None:
        """When the limit of a holder is used up, if nothing happens; None: never."""
        found = []
        for tenant in self._ledger.tenants.values():
            if tenant.share.gpu_limit < 1 and tenant.gpus and tenant.holds:
                usage = tenant.usage
                pace = 1.0 if usage.paused else usage.rate - tenant.share.gpu_limit
                if pace > _STILL:
                    left_s = max(_SOONEST_S, usage.budget_s / pace)
                    found.append(max(tenant.lease.window_ends_s, self._now_s + left_s))
        return min(found, default=None)

    def _divide(self, gpu: int, members: Members, elapsed_s: float) -> None:
        """Bring the lags of a class on a GPU up to date.

        A lag has a bound, or a tenant that cannot run for long would count for more than all
        others. What the bound cuts off must not make the others seem to have had too much. The
        bound is the same for all, or a tenant with short turns could stay behind tenants with long
        turns for ever.
        """
        longest_s = max(self._quantum.turn_s(tenant) for tenant, _ in members)
        most_s = _LAG_TURNS * max(1.0, longest_s)
        together_s = sum(tenant.gpus[gpu].rate for tenant, _ in members) * elapsed_s
        for tenant, part in members:
            on = tenant.gpus[gpu]
            lag_s = on.lag_s + part * together_s - on.rate * elapsed_s
            on.lag_s = min(most_s, max(-most_s, lag_s))
        _balance(gpu, members, members)

    def _owed_most_s(self) -> float:
        """What a class may owe a promise at most, besides a whole window."""
        longest_s = max(map(self._quantum.turn_s, self._ledger.tenants.values()), default=0.0)
        return _LAG_TURNS * max(1.0, longest_s)

    def _others(self, gpu: int, rank: int) -> float:
        """The part of a GPU that tenants of other classes than `rank` occupy now."""
        if not any(known == gpu and other != rank for known, other in self._classes):
            return 0.0
        return sum(on.rate for tenant, on in self._ledger.on(gpu) if tenant.usage.rank != rank)

    def find_rates(self) -> None:
        """Find the part of each GPU that each tenant occupies from now on, at the end of a step."""
        using: dict[int, list[Tenant]] = {}
        coming: dict[int, list[Tenant]] = {}
        draining: set[int] = set()
        for tenant in self._ledger.tenants.values():
            tenant.usage.rate = 0.0
            state = tenant.state
            waits = state in _USES_NOTHING
            for gpu, on in tenant.gpus.items():
                on.rate = 0.0
                if waits:
                    continue
                if state is State.RESTORING:
                    coming.setdefault(gpu, []).append(tenant)
                else:
                    using.setdefault(gpu, []).append(tenant)
                    if state is State.DRAINING:
                        draining.add(gpu)
        for gpu, comers in coming.items():
            if gpu not in draining:  # until then they only wait
                using.setdefault(gpu, []).extend(comers)
        for gpu, those in using.items():
            rate = 1.0 / len(those)
            for tenant in those:
                tenant.gpus[gpu].rate = rate
                tenant.usage.rate = max(tenant.usage.rate, rate)
        self.class_budgets.find_rates()

    def _budget(self, tenant: Tenant, elapsed_s: float) -> None:
        """Limits hold over windows: a tenant that waits keeps its unused time for a while.

        The time that it owes has the same kind of bound: a restore that hung for hours is no reason
        to wait for a day.
        """
        limit = tenant.share.gpu_limit
        burst_s = self.burst_s(tenant)
        most_s = burst_s
        if tenant.state is not State.IDLE:
            most_s = limit * _SAVED_TURNS * max(0.25, self._quantum.turn_s(tenant))
        more_s = (limit - tenant.usage.rate) * elapsed_s
        tenant.usage.budget_s = min(max(most_s, burst_s), tenant.usage.budget_s + more_s)
        window_s = self._quantum.settings.limit_window_s
        owed_s = _SAVED_TURNS * max(window_s, self._quantum.turn_s(tenant))
        tenant.usage.budget_s = max(-owed_s, tenant.usage.budget_s)
        if tenant.usage.budget_s <= EXACT_S:
            tenant.usage.paused = True
        elif tenant.usage.budget_s >= burst_s - EXACT_S:
            tenant.usage.paused = False


def _balance(gpu: int, members: Members, paying: Members) -> None:
    """Make the lags of a class on a GPU add up to 0, at the cost of `paying`, by their parts."""
    over_s = sum(tenant.gpus[gpu].lag_s for tenant, _ in members)
    whole = sum(part for _, part in paying)
    for tenant, part in paying:
        tenant.gpus[gpu].lag_s -= over_s * part / whole


def _until_s(tenant: Tenant, pace: float, window_s: float) -> float | None:
    """After what time a lag that changes by `pace` makes a tenant sit out, or come back."""
    if tenant.usage.sits_out:
        return -tenant.lag_s / pace if pace > _STILL else None
    left_s = tenant.lag_s + window_s
    if pace >= -_STILL or left_s <= EXACT_S or not any(mate.holds for mate in mates(tenant)):
        return None  # who is ahead already and holds has no other to sit out for
    return left_s / -pace
