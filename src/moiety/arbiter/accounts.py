"""Who received how much of a GPU's time, and who should have: in GPU-seconds, hand-offs included.

Every moment of a GPU is divided equally among those who occupy it: who holds, who still drains,
and who comes (its room is made and its memory restored), because nobody else can use that time.
What the tenants of a class received together is what they should have divided by their parts; the
difference is a tenant's lag. The lags of a class add up to nothing, so whoever is new or comes
back starts in the middle of them: it has saved up nothing (docs/decisions/0005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.states import State
from moiety.arbiter.tenant import Tenant
from moiety.arbiter.turns import Turns
from moiety.model.share import Share

RECENT_S = 5.0
"""over how long what was received lately is averaged"""
LEFT_OVER = 0.02
"""for those who ask nothing, together, when the whole GPU was promised to others"""
EXACT_S = 1e-6
"""less does not matter"""
_USES_NOTHING = frozenset({State.OUT, State.WAITING, State.STOPPED})
_LAG_TURNS = 4
_SAVED_TURNS = 4


class Accounts:
    """Keeps every tenant's lag, budget and receipts up to date. It decides nothing."""

    def __init__(self, ledger: Ledger, turns: Turns) -> None:
        self._ledger = ledger
        self._turns = turns
        self._now_s = 0.0
        self._classes: dict[tuple[int, int], list[tuple[Tenant, float]]] = {}
        """for each GPU and rank, who wants some of it, with its part"""

    def advance(self, now_s: float) -> None:
        """Charge the time since the last step to whoever occupied the GPUs."""
        elapsed_s = now_s - self._now_s
        self._now_s = now_s
        if elapsed_s <= 0:
            return
        self._find_rates()
        for (gpu, _), members in self._classes.items():
            if len(members) > 1:
                together = sum(tenant.gpus[gpu].rate for tenant, _ in members) * elapsed_s
                for tenant, part in members:
                    behind_s = part * together - tenant.gpus[gpu].rate * elapsed_s
                    tenant.lag_s += behind_s / len(tenant.gpus)
        kept = math.exp(-elapsed_s / RECENT_S)
        for tenant in self._ledger.tenants.values():
            rate = tenant.rate
            tenant.recent = rate + (tenant.recent - rate) * kept
            tenant.received_s += rate * elapsed_s
            if tenant.share.gpu_limit < 1:
                self._budget(tenant, elapsed_s)
            if tenant.lag_s:
                most_s = _LAG_TURNS * max(1.0, self._turns.turn_s(tenant))
                tenant.lag_s = min(most_s, max(-most_s, tenant.lag_s))

    def refresh(self) -> None:
        """Find everybody's part anew, if who wants some has changed."""
        if not self._ledger.parts_changed:
            return
        self._ledger.parts_changed = False
        found: dict[tuple[int, int], list[Tenant]] = {}
        for tenant in self._ledger.tenants.values():
            tenant.part = 1.0
            if tenant.state is not State.OUT:
                for gpu in tenant.gpus:
                    found.setdefault((gpu, tenant.rank), []).append(tenant)
        self._classes = {}
        for key, members in found.items():
            pairs = list(zip(members, parts([t.share for t in members]), strict=True))
            self._classes[key] = pairs
            for tenant, part in pairs:
                tenant.part = min(tenant.part, part)

    def sleep(self, tenant: Tenant) -> None:
        """It wants nothing any more: remember what it took too much, but not the opposite."""
        tenant.lag_s = min(0.0, tenant.lag_s - self._present_s(tenant))

    def wake(self, tenant: Tenant) -> None:
        """It wants something again: it starts at the present, less what it owes of lately."""
        slept_s = max(0.0, self._now_s - tenant.since_s)
        tenant.lag_s = self._present_s(tenant) + min(0.0, tenant.lag_s + slept_s)
        tenant.budget_s = min(tenant.budget_s, self.burst_s(tenant))

    def promise(self, tenant: Tenant, share: Share) -> None:
        """Change a tenant's share; within a new class, it starts at the present."""
        is_new_class = share.rank != tenant.rank
        tenant.share, tenant.rank, tenant.timed = share, share.rank, share.is_timed
        if is_new_class:
            tenant.lag_s = self._present_s(tenant)
        if share.gpu_limit < 1:
            burst_s = self.burst_s(tenant)
            tenant.budget_s = min(tenant.budget_s, burst_s) if tenant.paused else burst_s
        else:
            tenant.budget_s, tenant.paused = 0.0, False
        self._ledger.parts_changed = True

    def burst_s(self, tenant: Tenant) -> float:
        """The GPU time with which a tenant with a limit can run for its part of a window."""
        limit = tenant.share.gpu_limit
        return limit * (1 - limit) * self._turns.settings.limit_window_s

    def paused_until_s(self, tenant: Tenant) -> float:
        """When a tenant whose limit is used up may go on."""
        missing_s = self.burst_s(tenant) - tenant.budget_s
        return self._now_s + max(EXACT_S, missing_s / tenant.share.gpu_limit)

    def pauses_at_s(self, tenant: Tenant) -> float:
        """When a holder's limit will be used up, at the earliest."""
        left_s = max(1e-4, tenant.budget_s / (1 - tenant.share.gpu_limit))
        return max(tenant.window_ends_s, self._now_s + left_s)

    def _find_rates(self) -> None:
        """The part of each GPU that each tenant occupies, as it was since the last step."""
        using: dict[int, list[Tenant]] = {}
        coming: dict[int, list[Tenant]] = {}
        draining: set[int] = set()
        for tenant in self._ledger.tenants.values():
            tenant.rate = 0.0
            state = tenant.state
            waits = state in _USES_NOTHING
            for gpu, on in tenant.gpus.items():
                on.rate = 0.0
                if waits:
                    continue
                if state is State.COMING:
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
                tenant.rate = max(tenant.rate, rate)

    def _budget(self, tenant: Tenant, elapsed_s: float) -> None:
        """Limits hold over windows: what was not used is kept for a while by who waits for it."""
        limit = tenant.share.gpu_limit
        burst_s = self.burst_s(tenant)
        most_s = burst_s
        if tenant.state is not State.OUT:
            most_s = limit * _SAVED_TURNS * max(0.25, self._turns.turn_s(tenant))
        more_s = (limit - tenant.rate) * elapsed_s
        tenant.budget_s = min(max(most_s, burst_s), tenant.budget_s + more_s)
        if tenant.budget_s <= EXACT_S:
            tenant.paused = True
        elif tenant.budget_s >= burst_s - EXACT_S:
            tenant.paused = False

    def _present_s(self, tenant: Tenant) -> float:
        """The lag of whoever comes now: behind those who wait already, but not behind debts.

        That is the middle of the lags of those of its class that it shares a GPU with, less as
        much as puts it at the end of the queue, and never more than a turn.
        """
        found: dict[int, Tenant] = {}
        for gpu in tenant.gpus:
            for other, _ in self._classes.get((gpu, tenant.rank), ()):
                if other is not tenant and other.state is not State.OUT:
                    found[other.number] = other
        if not found:
            return 0.0
        middle_s = sum(other.lag_s for other in found.values()) / len(found)
        waiting = (o.lag_s for o in found.values() if o.state is State.WAITING)
        last_s = min(waiting, default=middle_s)
        return min(middle_s, max(last_s, middle_s - self._turns.turn_s(tenant)))


def parts(shares: Iterable[Share]) -> list[float]:
    """How a class divides what it receives: requests are floors, limits are caps; sums up to 1.

    Those who ask nothing have equal parts of what requests leave. What one may not have because of
    its limit is divided among the others in proportion.
    """
    known = list(shares)
    if len(known) == 1:
        return [1.0]
    asked = sum(share.gpu for share in known if share.gpu is not None)
    modest = sum(share.gpu is None for share in known)
    rest = max(LEFT_OVER, 1.0 - asked) / modest if modest else 0.0
    weights = [rest if share.gpu is None else share.gpu for share in known]
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
