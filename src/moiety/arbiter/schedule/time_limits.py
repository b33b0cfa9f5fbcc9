"""The limits of a GPU's time: how much of its limit each tenant has left.

A limit holds over windows (`limit_window_s`): a tenant runs until its budget is used up, and pauses
until it is full again.
"""

from __future__ import annotations

from collections.abc import Iterable

from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING

EXACT_S = 1e-6
"""Shorter times do not matter."""
SOONEST_S = 1e-4
"""The next round for a lag or a limit is no sooner than after this time."""
STILL = 1e-9
"""A lag or a budget that changes more slowly does not change."""
_SAVED_TURNS = 4


def burst_s(quantum: Quantum, tenant: Tenant) -> float:
    """The GPU time with which a tenant with a limit can run for its part of a window."""
    limit = tenant.share.gpu_limit
    return limit * (1 - limit) * quantum.settings.limit_window_s


def begin(quantum: Quantum, tenant: Tenant, *, was_limited: bool) -> None:
    """Give a tenant with a new share the budget of its limit.

    If it had a limit before, it has what is left: else each change of its share would be time that
    it gets beyond its limit. The share of a process changes with others of its workload and user.
    """
    usage = tenant.usage
    if tenant.share.gpu_limit < 1:
        most_s = burst_s(quantum, tenant)
        usage.budget_s = min(usage.budget_s, most_s) if was_limited else most_s
    else:
        usage.budget_s, usage.paused = 0.0, False


class Owed:
    """What processes of a workload that have left used of their limits, so that the next one pays.

    Else a workload would have its limit anew with each process that it starts.
    """

    def __init__(self) -> None:
        self._owed: dict[str, tuple[float, float, float]] = {}
        """By workload: GPU time, when that was so, and the limit by which it becomes less."""

    def leave(self, quantum: Quantum, tenant: Tenant, now_s: float) -> None:
        """Note what a tenant that leaves its workload has used of its budget."""
        if tenant.share.gpu_limit >= 1 or not tenant.workload:
            return
        owed_s = self._take(tenant.workload, now_s)
        owed_s += max(0.0, burst_s(quantum, tenant) - tenant.usage.budget_s)
        for workload in [each for each in self._owed if not self._left_s(each, now_s)]:
            del self._owed[workload]
        if owed_s > EXACT_S:
            self._owed[tenant.workload] = owed_s, now_s, tenant.share.gpu_limit

    def pay(self, tenant: Tenant, now_s: float) -> None:
        """Have a tenant that comes to a workload pay what is owed there."""
        if tenant.share.gpu_limit < 1:
            tenant.usage.budget_s -= self._take(tenant.workload, now_s)
            tenant.usage.paused = tenant.usage.budget_s <= EXACT_S

    def _left_s(self, workload: str, now_s: float) -> float:
        owed_s, since_s, limit = self._owed.get(workload, (0.0, now_s, 0.0))
        return max(0.0, owed_s - limit * (now_s - since_s))

    def _take(self, workload: str, now_s: float) -> float:
        left_s = self._left_s(workload, now_s)
        self._owed.pop(workload, None)
        return left_s


def charge(quantum: Quantum, tenant: Tenant, elapsed_s: float) -> None:
    """Charge the time since the last step; a tenant that waits keeps its unused time for a while.

    Only time with a lease counts, not the restore before it. The time that it owes has the same
    kind of bound: a drain that hung for hours is no reason to wait for a day.
    """
    limit, usage = tenant.share.gpu_limit, tenant.usage
    full_s = burst_s(quantum, tenant)
    budget_s = usage.budget_s + (limit - usage.limited_rate) * elapsed_s
    if budget_s > full_s:
        most_s = full_s
        if tenant.state not in RESTING:
            most_s = limit * _SAVED_TURNS * max(0.25, quantum.turn_s(tenant))
        budget_s = min(max(most_s, full_s), budget_s)
    window_s = quantum.settings.limit_window_s
    if budget_s < -_SAVED_TURNS * window_s:
        owed_s = _SAVED_TURNS * max(window_s, quantum.turn_s(tenant))
        budget_s = max(-owed_s, budget_s)
    usage.budget_s = budget_s
    if budget_s <= EXACT_S:
        usage.paused = True
    elif budget_s >= full_s - EXACT_S:
        usage.paused = False


def missing_s(quantum: Quantum, tenant: Tenant) -> float:
    """How long a tenant whose limit is used up pauses from now on."""
    budget_s = burst_s(quantum, tenant) - tenant.usage.budget_s
    return max(EXACT_S, budget_s / tenant.share.gpu_limit)


def next_pause_s(tenants: Iterable[Tenant], now_s: float) -> float | None:
    """When the limit of a holder is used up, if nothing happens; None: never."""
    found = []
    for tenant in tenants:
        if tenant.share.gpu_limit < 1 and tenant.gpus and tenant.holds:
            usage = tenant.usage
            pace = 1.0 if usage.paused else usage.limited_rate - tenant.share.gpu_limit
            if pace > STILL:
                left_s = max(SOONEST_S, usage.budget_s / pace)
                found.append(max(tenant.lease.window_ends_s, now_s + left_s))
    return min(found, default=None)
