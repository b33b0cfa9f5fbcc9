"""The GPU time that each tenant received and was due, in GPU-seconds.

Every moment of a GPU is divided equally among the tenants that occupy it: holders, draining tenants
and restoring tenants, because no other tenant can use that time. Hand-offs to tenants that were
promised a part are left out where tenants take turns (handoff_charges.py). The time that the
tenants of a class received together is due to each by its part (owners.py); a tenant's lag is what
it was due less what it received. The lags of a class on a GPU always add up to 0. A tenant that was
idle gets back its lag, faded in the meantime: a moment of silence costs no tenant its place, and no
tenant saves up time while it is idle. Others make up for the lag that a tenant brings or takes
along (lags.py, docs/decisions/0005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from moiety.arbiter.ledger import Ledger
from moiety.arbiter.schedule import time_limits
from moiety.arbiter.schedule.class_budget import ClassBudgets, pay_promises
from moiety.arbiter.schedule.handoff_charges import charges_s
from moiety.arbiter.schedule.lags import FADES_S, Lags, Members, balance, payers
from moiety.arbiter.schedule.owners import Group, Groups, Path, path
from moiety.arbiter.schedule.parts import class_parts
from moiety.arbiter.schedule.quantum import Quantum
from moiety.arbiter.schedule.time_limits import EXACT_S, SOONEST_S, STILL
from moiety.arbiter.state.gang import firsts, level, mates
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING, State
from moiety.model.share import Share

RECENT_S = 5.0
"""The time over which the recently received part is averaged."""
_USES_NOTHING = frozenset({State.QUEUED, State.STOPPED}) | RESTING
_LAG_TURNS = 4
EQUAL = 0.02
"""Parts that differ by less than this part of them are equal."""
_WINDOW_HANDOFFS = 5.0


class FairShare:
    """Keeps every tenant's lag, budget and receipts up to date. It decides nothing."""

    def __init__(self, ledger: Ledger, quantum: Quantum) -> None:
        self._ledger = ledger
        self._quantum = quantum
        self._now_s = 0.0
        self.class_budgets = ClassBudgets(ledger)
        self._classes: dict[tuple[int, int], Members] = {}
        """For each GPU and rank: the tenants that want its time, with their parts."""
        self._groups = Groups()
        """For each class whose parts are not equal: who sits out together."""
        self._lags = Lags()
        self._owed = time_limits.Owed()
        self.is_weighed = False
        """Whether tenants with different parts take turns (owners.py)."""
        self.crowded: set[int] = set()
        """GPUs on which the tenants that want time do not fit together (side_by_side.py)."""
        self.fits_since_s: dict[int, float] = {}
        """For those of them on which they fit at the moment: since when."""
        self.sitters: dict[int, Tenant] = {}
        """By number: the tenants that sit out."""
        self.uneven: set[tuple[int, int]] = set()
        """The classes whose parts are not equal, or in which the GPU's division is not."""
        self._limited: set[tuple[int, int]] = set()
        """The classes of several tenants in which a limit counts."""
        self._even_since_s: dict[tuple[int, int], float] = {}
        """Since when the parts of a class have been equal, so that its lags mean less and less."""
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
            usage, rate, work = tenant.usage, tenant.usage.rate, tenant.usage.limited_rate
            usage.recent = rate + (usage.recent - rate) * kept
            usage.worked = work + (usage.worked - work) * kept
            usage.received_s += rate * elapsed_s
            if tenant.share.gpu_limit < 1:
                time_limits.charge(self._quantum, tenant, elapsed_s)

    def refresh(self) -> None:
        """Find every tenant's part anew, if the tenants that want time or their shares changed."""
        if not (self._ledger.parts_changed or self._ledger.members_changed):
            return
        self._ledger.parts_changed = False
        self.class_budgets.refresh()
        found: dict[tuple[int, int], list[Tenant]] = {}
        guarantees = self._ledger.guarantees
        for tenant in self._ledger.tenants.values():
            tenant.usage.part, tenant.usage.weighed = 1.0, False
            tenant.usage.timed = tenant.share.is_timed or guarantees.has(tenant.owner)
            if tenant.state not in RESTING:
                for gpu in tenant.gpus:
                    found.setdefault((gpu, tenant.usage.rank), []).append(tenant)
        self.uneven.clear()
        self._limited.clear()
        paths = {t.number: path(t) for members in found.values() for t in members}
        before, self._classes = (
            self._classes,
            {
                key: list(zip(members, self._parts(key[0], members), strict=True))
                for key, members in found.items()
            },
        )
        self._pass_on(before, paths)
        uneven = {key: [tenant for tenant, _ in self._classes[key]] for key in self.uneven}
        self._groups.renew(uneven, self._now_s)
        self.is_weighed = False
        for key, pairs in self._classes.items():
            is_weighed = key in self.uneven and key[0] in self.crowded
            self.is_weighed = self.is_weighed or is_weighed
            for tenant, part in pairs:
                tenant.gpus[key[0]].part = part
                whole = part  # a gang's part is that of all members, who have one turn
                if tenant.gang is not None:
                    whole = sum(other for mate, other in pairs if mate.gang is tenant.gang)
                tenant.usage.part = min(tenant.usage.part, whole)
                tenant.usage.weighed = tenant.usage.weighed or is_weighed

    def _pass_on(self, before: dict[tuple[int, int], Members], paths: dict[int, Path]) -> None:
        """Have the lags of tenants that came or went go to those nearest to them, or be kept."""
        here: dict[int, set[int]] = {}
        for key, pairs in self._classes.items():
            here.setdefault(key[0], set()).update(tenant.number for tenant, _ in pairs)
        for key, pairs in before.items():
            now = {tenant.number for tenant, _ in self._classes.get(key, ())}
            self._lags.leave(key[0], pairs, now, here.get(key[0], set()) - now, self._now_s)
        for key, pairs in self._classes.items():
            if len(pairs) == 1:  # it gets all the time of its class
                pairs[0][0].gpus[key[0]].lag_s = 0.0
                self._even_since_s.pop(key, None)
                continue
            self._look_at(key, pairs)
            there = {tenant.number for tenant, _ in before.get(key, ())}
            self._lags.come(key[0], pairs, there, paths, self._now_s)
            stayed = [pair for pair in pairs if pair[0].number in there]
            # Where all came at once, those who were promised a part get back what others owe them.
            balance(key[0], pairs, payers(stayed) if stayed else pairs)
        self._lags.change(paths, self._ledger.tenants.values(), self._now_s)

    def _parts(self, gpu: int, members: list[Tenant]) -> list[float]:
        """The part of each tenant of a class."""
        shares = [self._dividing(tenant, gpu) for tenant in members]
        return class_parts(members, shares, self._ledger.guarantees)

    def _dividing(self, tenant: Tenant, gpu: int) -> Share:
        """The share by which a tenant's part of the time of its class is found.

        Where tenants take turns, parts contain hand-offs and limits do not. A limited tenant
        therefore needs room for its hand-offs in its part; its budget holds the limit itself.
        """
        share = tenant.share
        if share.gpu_limit >= 1 or gpu not in self.crowded:
            return share
        handoffs = 1.0 / (1.0 + self._quantum.settings.turn_factor)
        return replace(share, gpu_limit=min(1.0, share.gpu_limit + handoffs))

    def _look_at(self, key: tuple[int, int], pairs: Members) -> None:
        """Note whether the parts of a class are equal, and whether a limit counts there."""
        if any(tenant.share.gpu_limit < 1 for tenant, _ in pairs):
            self._limited.add(key)
        is_apart = any(tenant.usage.apart for tenant, _ in pairs)
        if not is_apart and all(abs(part * len(pairs) - 1.0) <= EQUAL for _, part in pairs):
            self._even_since_s.setdefault(key, self._now_s)
            return
        self.uneven.add(key)
        even_s = self._now_s - self._even_since_s.pop(key, self._now_s)
        if even_s and key[0] not in self.crowded:
            for tenant, _ in pairs:
                tenant.gpus[key[0]].lag_s *= math.exp(-even_s / FADES_S)

    @property
    def has_windows(self) -> bool:
        """Whether a class has unequal parts, or a limit, so that tenants may sit out or pause."""
        return bool(self.uneven or self._limited)

    def window_s(self) -> float:
        """The GPU time by which a tenant that sits out is ahead at first."""
        return max(self._quantum.settings.window_min_s, _WINDOW_HANDOFFS * self._quantum.message_s)

    def groups(self, key: tuple[int, int]) -> Iterable[Group]:
        """The tenants of a class with unequal parts that sit out together."""
        return self._groups.of[key].values()

    def side_by_side(self, *, limited: bool = False) -> Iterator[tuple[tuple[int, int], Members]]:
        """The classes with unequal parts on GPUs on which all fit; `limited`: those with limits."""
        for key in self.uneven | self._limited if limited else self.uneven:
            if key[0] not in self.crowded:
                yield key, self._classes[key]

    def forget_turns(self, gpus: set[int]) -> None:
        """Bound the lags on GPUs where tenants took turns, and fit from now on."""
        window_s = self.window_s()
        for key in [key for key in self._classes if key[0] in gpus]:
            if key not in self.uneven:
                self._even_since_s[key] = -math.inf
                continue
            for tenant, _ in self._classes[key]:
                if on := tenant.gpus.get(key[0]):
                    on.lag_s = min(window_s, max(-window_s, on.lag_s))
        self._ledger.parts_changed = True

    def next_change_s(self) -> float | None:
        """When a tenant has to sit out, or may come back, if nothing happens; None: never."""
        first_s: float | None = None
        window_s = self.window_s()
        wholes: dict[tuple[int, int], float] = {}
        for key, _ in self.side_by_side():
            paces: dict[int, float] = {}
            for group in self.groups(key):
                for tenant in group.firsts:
                    if tenant.number not in paces:
                        paces[tenant.number] = self._pace(tenant, wholes)
                pace = sum(paces[tenant.number] for tenant in group.firsts)
                after_s = _until_s(group, pace, window_s * group.windows)
                if after_s is not None and (first_s is None or after_s < first_s):
                    first_s = after_s
        return None if first_s is None else self._now_s + max(SOONEST_S, first_s)

    def _pace(self, tenant: Tenant, wholes: dict[tuple[int, int], float]) -> float:
        """How much the lag of a tenant, or of its gang, grows in a second; negative: it shrinks.

        `wholes`: what classes occupy of their GPUs together, as far as it is known already.
        """
        pace, gpus = 0.0, set()
        for mate in mates(tenant):
            for gpu, on in mate.gpus.items():
                gpus.add(gpu)
                key = gpu, mate.usage.rank
                members = self._classes.get(key, ())
                if len(members) < 2:
                    continue
                if key not in wholes:
                    wholes[key] = sum(other.gpus[gpu].rate for other, _ in members)
                pace += on.part * wholes[key] - on.rate
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
            on.lag_s *= math.exp(-slept_s / FADES_S)
        tenant.usage.budget_s = min(
            tenant.usage.budget_s, time_limits.burst_s(self._quantum, tenant)
        )

    def promise(self, tenant: Tenant, share: Share) -> None:
        """Change a tenant's share; within a new class, it starts as if it were new (lags.py)."""
        was_limited = tenant.share.gpu_limit < 1
        tenant.share = share
        tenant.usage.timed = share.is_timed or self._ledger.guarantees.has(tenant.owner)
        tenant.usage.class_rank = tenant.usage.rank = share.rank
        if tenant.gang is not None:
            level(tenant.gang)
        time_limits.begin(self._quantum, tenant, was_limited=was_limited)
        if not was_limited:
            self._owed.pay(tenant, self._now_s)
        self._ledger.members_changed = True
        self._ledger.touch(tenant)

    def leave(self, tenant: Tenant) -> None:
        """Note what a tenant that is about to be forgotten used of its limit."""
        self._owed.leave(self._quantum, tenant, self._now_s)

    def paused_until_s(self, tenant: Tenant) -> float:
        """When a tenant whose limit is used up may go on."""
        return self._now_s + time_limits.missing_s(self._quantum, tenant)

    def next_pause_s(self) -> float | None:
        """When the limit of a holder is used up, if nothing happens; None: never."""
        return time_limits.next_pause_s(self._ledger.tenants.values(), self._now_s)

    def _divide(self, gpu: int, members: Members, elapsed_s: float) -> None:
        """Bring the lags of a class on a GPU up to date.

        A lag has a bound, or a tenant that cannot run for long would count for more than all
        others. What the bound cuts off must not make the others seem to have had too much. The
        bound is the same for all, or a tenant with short turns could stay behind tenants with long
        turns for ever.
        """
        if gpu in self.crowded:
            charged_s = charges_s(self._quantum, gpu, members, elapsed_s, self._now_s)
        else:
            charged_s = [tenant.gpus[gpu].rate * elapsed_s for tenant, _ in members]
        together_s = sum(charged_s)
        largest_s = 0.0
        for (tenant, part), own_s in zip(members, charged_s, strict=True):
            on = tenant.gpus[gpu]
            on.lag_s = lag_s = on.lag_s + part * together_s - own_s
            largest_s = max(largest_s, lag_s, -lag_s)
        if largest_s > _LAG_TURNS:  # the bound is never smaller
            longest_s = max(self._quantum.turn_s(tenant) for tenant, _ in members)
            most_s = _LAG_TURNS * max(1.0, longest_s)
            for tenant, _ in members:
                on = tenant.gpus[gpu]
                on.lag_s = min(most_s, max(-most_s, on.lag_s))
        balance(gpu, members, members)

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
            tenant.usage.rate = tenant.usage.limited_rate = 0.0
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
        for those in using.values():
            rate = 1.0 / len(those)
            for tenant in those:
                if rate > tenant.usage.limited_rate:
                    tenant.usage.limited_rate = rate
        for gpu, comers in coming.items():
            if gpu not in draining:  # until then they only wait
                using.setdefault(gpu, []).extend(comers)
        for gpu, those in using.items():
            rate = 1.0 / len(those)
            for tenant in those:
                tenant.gpus[gpu].rate = rate
                if rate > tenant.usage.rate:
                    tenant.usage.rate = rate
        self.class_budgets.find_rates()


def _until_s(group: Group, pace: float, window_s: float) -> float | None:
    """After what time a lag that changes by `pace` makes a group sit out, or come back."""
    if group.sits_out:
        return -group.lag_s / pace if pace > STILL else None
    left_s = group.lag_s + window_s
    if pace >= -STILL or left_s <= EXACT_S or not any(each.holds for each in group.members):
        return None  # who is ahead already and holds has no other to sit out for
    return left_s / -pace
