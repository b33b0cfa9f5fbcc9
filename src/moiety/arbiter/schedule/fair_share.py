"""Who received how much of a GPU's time, and who should have: in GPU-seconds, hand-offs included.

Every moment of a GPU is divided equally among those who occupy it: who holds, who still drains,
and who comes (its room is made and its memory restored), because nobody else can use that time.
What the tenants of a class received together is what they should have divided by their parts; the
difference is a tenant's lag. The lags of a class on a GPU always add up to nothing, so nothing is
the lag of whoever is new. Who comes back has the lag with which it went, faded in the meantime: a
moment of silence costs nobody its place, and nobody saves up time by sleeping. The others make up
for what one brings or takes along (docs/decisions/0005).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.state.gang import firsts, level, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State
from moiety.model.share import Share

RECENT_S = 5.0
"""over how long what was received lately is averaged"""
LEFT_OVER = 0.02
"""for those who ask nothing, together, when the whole GPU was promised to others"""
EXACT_S = 1e-6
"""less does not matter"""
_USES_NOTHING = frozenset({State.IDLE, State.QUEUED, State.STOPPED})
_LAG_TURNS = 4
_FADES_S = 2.0
"""after so long a sleep, a third of a lag is left"""
_SAVED_TURNS = 4

Members = Sequence[tuple[Tenant, float]]
"""those of a class who want some of a GPU, with their parts of what it receives together"""


class FairShare:
    """Keeps every tenant's lag, budget and receipts up to date. It decides nothing."""

    def __init__(self, ledger: Ledger, quantum: Quantum) -> None:
        self._ledger = ledger
        self._quantum = quantum
        self._now_s = 0.0
        self._classes: dict[tuple[int, int], Members] = {}
        """for each GPU and rank, who wants some of it, with its part"""
        self.forward_from_s: dict[int, float] = {}
        """by GPU, from when on somebody may go next for having waited (starvation.py)"""

    def advance(self, now_s: float) -> None:
        """Charge the time since the last step to whoever has occupied the GPUs since then."""
        elapsed_s = now_s - self._now_s
        self._now_s = now_s
        if elapsed_s <= 0:
            return
        for (gpu, _), members in self._classes.items():
            if len(members) > 1:
                self._divide(gpu, members, elapsed_s)
        kept = math.exp(-elapsed_s / RECENT_S)
        for tenant in self._ledger.tenants.values():
            rate = tenant.usage.rate
            tenant.usage.recent = rate + (tenant.usage.recent - rate) * kept
            tenant.usage.received_s += rate * elapsed_s
            if tenant.share.gpu_limit < 1:
                self._budget(tenant, elapsed_s)

    def refresh(self) -> None:
        """Find everybody's part anew, if who wants some has changed."""
        if not self._ledger.parts_changed:
            return
        self._ledger.parts_changed = False
        found: dict[tuple[int, int], list[Tenant]] = {}
        for tenant in self._ledger.tenants.values():
            tenant.usage.part = 1.0
            if tenant.state is not State.IDLE:
                for gpu in tenant.gpus:
                    found.setdefault((gpu, tenant.usage.rank), []).append(tenant)
        before, self._classes = self._classes, {}
        for key, members in found.items():
            if len(members) == 1:  # all of it is its own, and so is the blame
                (tenant,) = members
                tenant.gpus[key[0]].lag_s = 0.0
                self._classes[key] = [(tenant, 1.0)]
                continue
            pairs = list(
                zip(members, parts([t.share for t in members], _weights(members)), strict=True)
            )
            self._classes[key] = pairs
            for tenant, part in pairs:
                whole = part  # of a gang, since its turns are those of all its members
                if tenant.gang is not None:
                    whole = sum(other for mate, other in pairs if mate.gang is tenant.gang)
                tenant.usage.part = min(tenant.usage.part, whole)
            there = {tenant.number for tenant, _ in before.get(key, ())}
            stayed = [pair for pair in pairs if pair[0].number in there]
            _balance(key[0], pairs, stayed or pairs)

    def round_s(self, tenant: Tenant) -> float:
        """What it costs that each of its class comes once; who never did costs as much as it."""
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
        """How long it takes that each of its class has a turn."""
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
        """It wants something again: what it was behind or ahead fades while it sleeps."""
        slept_s = max(0.0, self._now_s - tenant.since_s)
        for on in tenant.gpus.values():
            on.lag_s *= math.exp(-slept_s / _FADES_S)
        tenant.usage.budget_s = min(tenant.usage.budget_s, self.burst_s(tenant))

    def promise(self, tenant: Tenant, share: Share) -> None:
        """Change a tenant's share; within a new class, it starts as if it were new."""
        before = [(mate, mate.usage.rank) for mate in mates(tenant)]
        tenant.share, tenant.usage.rank, tenant.usage.timed = share, share.rank, share.is_timed
        if tenant.gang is not None:
            level(tenant.gang)
        for mate, rank in before:
            if mate.usage.rank != rank:
                for on in mate.gpus.values():
                    on.lag_s = 0.0
        if share.gpu_limit < 1:
            burst_s = self.burst_s(tenant)
            tenant.usage.budget_s = (
                min(tenant.usage.budget_s, burst_s) if tenant.usage.paused else burst_s
            )
        else:
            tenant.usage.budget_s, tenant.usage.paused = 0.0, False
        self._ledger.parts_changed = True
        self._ledger.touch(tenant)

    def burst_s(self, tenant: Tenant) -> float:
        """The GPU time with which a tenant with a limit can run for its part of a window."""
        limit = tenant.share.gpu_limit
        return limit * (1 - limit) * self._quantum.settings.limit_window_s

    def paused_until_s(self, tenant: Tenant) -> float:
        """When a tenant whose limit is used up may go on."""
        missing_s = self.burst_s(tenant) - tenant.usage.budget_s
        return self._now_s + max(EXACT_S, missing_s / tenant.share.gpu_limit)

    def pauses_at_s(self, tenant: Tenant) -> float:
        """When a holder's limit will be used up, at the earliest."""
        left_s = max(1e-4, tenant.usage.budget_s / (1 - tenant.share.gpu_limit))
        return max(tenant.lease.window_ends_s, self._now_s + left_s)

    def _divide(self, gpu: int, members: Members, elapsed_s: float) -> None:
        """Bring the lags of a class on a GPU up to date.

        A lag has a bound, or one that cannot run for long would count for more than all others;
        what is cut off there must not make the others seem to have had too much. The bound is the
        same for all, or who has short turns could stay behind those who have long ones for ever.
        """
        longest_s = max(self._quantum.turn_s(tenant) for tenant, _ in members)
        most_s = _LAG_TURNS * max(1.0, longest_s)
        together_s = sum(tenant.gpus[gpu].rate for tenant, _ in members) * elapsed_s
        for tenant, part in members:
            on = tenant.gpus[gpu]
            lag_s = on.lag_s + part * together_s - on.rate * elapsed_s
            on.lag_s = min(most_s, max(-most_s, lag_s))
        _balance(gpu, members, members)

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
            if gpu not in draining:  # before that they cause nothing, and wait
                using.setdefault(gpu, []).extend(comers)
        for gpu, those in using.items():
            rate = 1.0 / len(those)
            for tenant in those:
                tenant.gpus[gpu].rate = rate
                tenant.usage.rate = max(tenant.usage.rate, rate)

    def _budget(self, tenant: Tenant, elapsed_s: float) -> None:
        """Limits hold over windows: what was not used is kept for a while by who waits for it.

        Nor is more than that ever owed: a coming that hung for hours is no reason to wait a day.
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
    """Have the lags of a class on a GPU add up to nothing, at the cost of some, by their parts."""
    over_s = sum(tenant.gpus[gpu].lag_s for tenant, _ in members)
    whole = sum(part for _, part in paying)
    for tenant, part in paying:
        tenant.gpus[gpu].lag_s -= over_s * part / whole


def _weights(members: Sequence[Tenant]) -> list[float]:
    """A gang counts as one: how much of one each of these is."""
    counts = Counter(tenant.gang.name for tenant in members if tenant.gang is not None)
    return [1.0 / counts[t.gang.name] if t.gang is not None else 1.0 for t in members]


def parts(shares: Iterable[Share], counts: Sequence[float] = ()) -> list[float]:
    """How a class divides what it receives: requests are floors, limits are caps; sums up to 1.

    Those who ask nothing have equal parts of what requests leave, or as `counts` says. What one may
    not have because of its limit is divided among the others in proportion.
    """
    known = list(shares)
    if len(known) == 1:
        return [1.0]
    asked = sum(share.gpu for share in known if share.gpu is not None)
    each = counts or [1.0] * len(known)
    modest = sum(count for share, count in zip(known, each, strict=True) if share.gpu is None)
    rest = max(LEFT_OVER, 1.0 - asked) / modest if modest else 0.0
    weights = [
        rest * count if share.gpu is None else share.gpu
        for share, count in zip(known, each, strict=True)
    ]
    whole = sum(weights)
    found = [weight / whole for weight in weights]
    if all(share.gpu_limit >= 1 for share in known):
        return found
    limits = [share.gpu_limit for share in known]
    full: set[int] = set()
    while over := {i for i, part in enumerate(found) if i not in full and part > limits[i]}:
        full |= over
        free = 1.0 - sum(limits[i] for i in full)
        others = sum(weights[i] for i in range(len(found)) if i not in full)
        for i in range(len(found)):
            found[i] = limits[i] if i in full else weights[i] / others * free
    whole = sum(found)
    return [part / whole for part in found]
