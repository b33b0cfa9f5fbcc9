"""What was promised comes before classes: how long a higher class may go first at once.

A tenant of a higher class goes before all others at once, as long as it and those above it used no
more of the last ten seconds than what no tenant below them was promised. Beyond that, tenants below
that were promised a part of the GPU's time are raised to the highest class that wants time. There
the higher class waits like others, and parts decide (fair_share.py). Tenants without a promise stay
where they are, so the order of classes holds among all who were promised nothing.

The account is a budget for each rank of promised tenants, in GPU-seconds: time that is not promised
is paid in, the time of tenants above that rank is paid out while a promised tenant wants the GPU.
What they have while none does is taken from no promise. All other time counts, also that of a
holder that is silent, since only its own word says so. So over a long time the classes above never
had more of what was wanted than was paid in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.state.gang import mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING

WINDOW_S: Final = 10.0
"""Over this time the classes above a promise may use all time that is not promised at once."""
_AGAIN: Final = 0.25
"""A budget that was used up counts again once this part of it is there."""
_EXACT_S: Final = 1e-6

Key = tuple[int, int]
"""A GPU and the rank of promised tenants."""


@dataclass(slots=True)
class Budget:
    """What the classes above one rank may still use of a GPU before that rank's promises."""

    left_s: float
    """GPU-seconds; negative: they had more than what is not promised."""
    free: float
    """The part of the GPU that no tenant of the rank or below was promised."""
    used: float = 0.0
    """The part of the GPU that the classes above occupy now."""
    is_wanted: bool = True
    """Whether a promised tenant of the rank wants time."""
    is_spent: bool = False

    @property
    def most_s(self) -> float:
        """What can be saved up: used up in the time that is free in a whole window."""
        return self.free * (1.0 - self.free) * WINDOW_S

    @property
    def again_s(self) -> float:
        """From how much on a used up budget counts again."""
        return max(_EXACT_S, self.most_s * _AGAIN)

    def advance(self, elapsed_s: float, longest_s: Callable[[], float]) -> None:
        """Pay in and out; `longest_s` bounds what is owed, besides a whole window."""
        more_s = (self.free - self.used) * elapsed_s
        if more_s < 0:
            least_s = -self.most_s - longest_s() if self.is_wanted else self.left_s
            more_s = max(more_s, min(0.0, least_s - self.left_s))
        self.left_s = min(self.most_s, self.left_s + more_s)
        self.judge()

    def judge(self) -> None:
        """Find out whether it is used up."""
        if self.left_s <= _EXACT_S / 2:
            self.is_spent = True
        elif self.is_spent and self.left_s >= self.again_s - _EXACT_S / 2:
            self.is_spent = False

    def turns_after_s(self) -> float | None:
        """After what time it is used up, or counts again, if nothing happens; None: never."""
        if not self.is_wanted:
            return None
        pace = self.free - self.used
        if self.is_spent:
            return (self.again_s - self.left_s) / pace if pace > 0 else None
        return self.left_s / -pace if pace < 0 else None


@dataclass(slots=True)
class Bound:
    """Whom a budget is about: the tenants of one GPU, seen from one rank with a promise."""

    key: Key
    free: float
    """The part of the GPU that no tenant of the rank or below was promised."""
    promised: list[Tenant]
    """Those of the rank that were promised something."""
    above: list[Tenant]
    others: list[Tenant]
    """Those of the rank or below that were promised nothing."""


class ClassBudgets:
    """The budgets of all GPUs, and the tenants that they raise."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._budgets: list[tuple[Bound, Budget]] = []
        self._raised: list[Tenant] = []
        """Tenants whose rank may be above that of their class."""

    def __bool__(self) -> bool:
        """Whether there is any: a promise, and a class above it."""
        return bool(self._budgets)

    @property
    def are_kept(self) -> bool:
        """Whether none is used up, or can be before a tenant of a higher class works."""
        return not any(budget.is_spent or budget.used for _, budget in self._budgets)

    def last(self, for_s: float) -> bool:
        """Whether none is used up, or can be in this time."""
        return not any(budget.is_spent or budget.left_s <= for_s for _, budget in self._budgets)

    def advance(self, elapsed_s: float, longest_s: Callable[[], float]) -> None:
        """Charge the time since the last step; see `Budget.advance`."""
        for _, budget in self._budgets:
            was_spent = budget.is_spent
            budget.advance(elapsed_s, longest_s)
            if budget.is_spent is not was_spent:
                self._ledger.parts_changed = True

    def refresh(self) -> None:
        """Find who is raised, and the budgets anew if shares or tenants changed."""
        for tenant in self._raised:
            tenant.usage.rank = tenant.usage.class_rank
        self._raised.clear()
        if self._ledger.members_changed:
            self._ledger.members_changed = False
            known = {bound.key: budget for bound, budget in self._budgets}
            self._budgets = [
                (bound, _budget(bound, known.get(bound.key))) for bound in self._find_bounds()
            ]
        for bound, budget in self._budgets:
            budget.is_wanted = False
            for tenant in bound.promised:
                if tenant.state not in RESTING:
                    budget.is_wanted = True
                    break
            budget.judge()
        for bound, budget in self._budgets:
            if budget.is_spent:
                self._raise(bound)

    def check(self) -> None:
        """Compare the tenants of all budgets with a fresh look; raises AssertionError."""
        if not self._ledger.members_changed:
            assert [bound for bound, _ in self._budgets] == list(self._find_bounds())

    def find_rates(self) -> None:
        """Find what the classes above each rank occupy from now on, at the end of a step.

        Tenants that join them count as well: the promised ones wait for the whole.
        """
        for bound, budget in self._budgets:
            gpu = bound.key[0]
            used = 0.0
            for tenant in bound.above:
                used += tenant.gpus[gpu].rate
            if used:
                for tenant in bound.others:
                    used += tenant.gpus[gpu].rate
            budget.used = used

    def next_change_s(self, now_s: float) -> float | None:
        """When a budget is used up, or counts again, if nothing happens; None: never."""
        first_s: float | None = None
        for _, budget in self._budgets:
            after_s = budget.turns_after_s()
            if after_s is not None and (first_s is None or after_s < first_s):
                first_s = after_s
        return None if first_s is None else now_s + max(0.0, first_s)

    def _find_bounds(self) -> Iterator[Bound]:
        """Each GPU and rank with a promise and a class above it."""
        for gpu in self._ledger.specs:
            there = [tenant for tenant, _ in self._ledger.on(gpu)]
            for rank in {t.usage.class_rank for t in there if self._is_promised(t)}:
                above = [t for t in there if t.usage.class_rank > rank]
                below = [t for t in there if t.usage.class_rank <= rank]
                if above:
                    yield Bound(
                        (gpu, rank),
                        max(0.0, 1.0 - self._promised(below)),
                        [t for t in below if self._is_promised(t) and t.usage.class_rank == rank],
                        above,
                        [t for t in below if not self._is_promised(t)],
                    )

    def _is_promised(self, tenant: Tenant) -> bool:
        return bool(tenant.share.gpu) or self._ledger.guarantees.has(tenant.owner)

    def _promised(self, tenants: Iterable[Tenant]) -> float:
        """What these, and their owners, are promised of a GPU together."""
        asked: dict[str, float] = {}
        for tenant in tenants:
            asked[tenant.owner] = asked.get(tenant.owner, 0.0) + (tenant.share.gpu or 0.0)
        return self._ledger.guarantees.reserved(asked, asked)

    def _raise(self, bound: Bound) -> None:
        """Put the promised tenants of a rank into the highest class that wants the GPU."""
        gpu, rank = bound.key
        wanting = (t.usage.class_rank for t, _ in self._ledger.on(gpu) if t.state not in RESTING)
        top = max(wanting, default=rank)
        for tenant in bound.promised:
            for mate in mates(tenant):
                mate.usage.rank = max(mate.usage.rank, top)
                self._raised.append(mate)


def _budget(bound: Bound, budget: Budget | None) -> Budget:
    """The budget of a bound: the known one, or one with what was not used lately."""
    if budget is None:
        recent = sum(min(1.0, tenant.usage.recent) for tenant in bound.above)
        budget = Budget((bound.free - min(1.0, recent)) * WINDOW_S, bound.free)
        budget.left_s = max(-budget.most_s, budget.left_s)
    budget.free = bound.free
    budget.left_s = min(budget.most_s, budget.left_s)
    return budget


def pay_promises(members: Iterable[tuple[Tenant, float]], gpu: int, others_s: float) -> None:
    """Let those of a class that were promised nothing pay for the time of other classes.

    A promise is a part of the GPU's whole time, not of what a class receives: its tenant is due its
    part of `others_s` as well. Where all, or none, were promised something, nothing changes.
    """
    known = list(members)
    paying = [(tenant, part) for tenant, part in known if not tenant.usage.promised]
    if not paying or len(paying) == len(known):
        return
    whole = sum(part for _, part in paying)
    owed_s = 0.0
    for tenant, _ in known:
        if tenant.usage.promised and not tenant.usage.paused:
            due_s = tenant.usage.promised * others_s
            tenant.gpus[gpu].lag_s += due_s
            owed_s += due_s
    for tenant, part in paying:
        tenant.gpus[gpu].lag_s -= owed_s * part / whole
