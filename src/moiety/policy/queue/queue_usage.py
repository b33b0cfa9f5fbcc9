"""The usage of each queue: what it has, and what it may and should have.

Amounts are tuples or lists of four whole numbers, in the order of `RESOURCES`. What a queue has
counts for all queues above it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import RESOURCES, WEEK_S, Amounts, Queue, QueueTree
from moiety.policy.queue.fairness import Claim, divide, weights_by_use

Vector = tuple[int, ...]
NOTHING: Final = (0,) * len(RESOURCES)
UNBOUNDED: Final = (None,) * len(RESOURCES)
GPU_MILLI: Final = 0
"""The position of GPU thousandths in a vector."""
TURN_S: Final = 3600.0
"""The shortest turn for which a gang begins on credit: with less it would soon be stopped again."""
NEAR_S: Final = 1e-3
"""A border that is nearer than this has been reached: sums of seconds are not exact."""
TOUCHED_MAX: Final = 10_000
"""The most changes that are remembered one by one."""
CLOSE: Final = 1e-9
"""Two ratios that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A bound of a queue that a piece would break."""

    queue: str
    resource: str
    wanted: int
    """What the queue would have with the piece."""
    bound: int


class QueueUsage:
    """All queues of a snapshot. Fair shares are what they were at the last `share_out`."""

    def __init__(self, queues: Iterable[Queue], now_s: float = 0.0, monday_s: float = 0.0) -> None:
        self.tree = QueueTree(queues)
        self.paths = {name: self.tree.path(name) for name in self.tree.queues}
        self._upwards = sorted(self.paths, key=lambda name: -len(self.paths[name]))
        """All queues, each before the queue above it."""
        self._below = {
            parent: sorted(children, key=lambda each: each.name)
            for parent, children in self.tree.children.items()
        }
        self._usual = {name: _vector(queue.quota) for name, queue in self.tree.queues.items()}
        self._borders = self.tree.borders()
        self._timed = [queue for queue in self.tree.queues.values() if queue.windows]
        self.quota = dict(self._usual)
        """The quotas that hold now."""
        self.limit = {name: _vector(queue.limit) for name, queue in self.tree.queues.items()}
        self._limited = [name for name, limit in self.limit.items() if limit != UNBOUNDED]
        self._quota_most = {
            name: _most([queue.quota, *(window.quota for window in queue.windows)])
            for name, queue in self.tree.queues.items()
        }
        self.has: dict[str, list[int]] = {name: list(NOTHING) for name in self.tree.queues}
        self.guaranteed: dict[str, list[int]] = {name: list(NOTHING) for name in self.tree.queues}
        """The part of `has` that must not be taken away."""
        self.fair: dict[str, list[int]] = {name: list(NOTHING) for name in self.tree.queues}
        self.capacity: Vector = NOTHING
        """The capacity of the whole cluster at the last `share_out`."""
        self.credit: Mapping[str, float] = {}
        """GPU-seconds that each queue had less than its part of late; below 0: debt."""
        self._partings: dict[tuple[str, str], tuple[int, str, str]] = {}
        self.version = 0
        """A number that grows with each change."""
        self.shares_version = 0
        """Its value when quotas or fair shares changed last."""
        self.touched: list[str] = []
        """The queues in which work began or ended since then, one for each change, in order."""
        self.changed = dict.fromkeys(self.paths, 0)
        """The version in which the usage of each queue changed last."""
        self.at(now_s - monday_s)

    def at(self, since_monday_s: float) -> None:
        """Set the quotas that hold at a time of the week."""
        if self._timed:
            self.quota.update(self.quotas_at(since_monday_s))
        self._shares_changed()

    def quotas_at(self, since_monday_s: float) -> Mapping[str, tuple[int | None, ...]]:
        """The quotas of a time of the week, by queue; a border that is near has been reached."""
        if not self._timed:
            return self._usual
        at_s = since_monday_s + NEAR_S
        of_time = {queue.name: _vector(queue.quota_at(at_s)) for queue in self._timed}
        return self._usual | of_time

    def next_border_s(self, now_s: float, monday_s: float) -> float | None:
        """When other quotas begin to hold; None: they never change."""
        if not self._borders:
            return None
        at = (now_s - monday_s) % WEEK_S
        later = (border for border in self._borders if border > at + NEAR_S)
        return now_s + next(later, self._borders[0] + WEEK_S) - at

    def check(self, queue: str, workload: str) -> None:
        """Raises InvalidValue for a queue in which nothing can run."""
        if queue not in self.paths:
            raise InvalidValue(f"workload {workload}: there is no queue {queue}")
        if self.tree.children.get(queue):
            below = ", ".join(child.name for child in self.tree.children[queue])
            raise InvalidValue(
                f"workload {workload} is in queue {queue}, which only has queues below it: {below}"
            )

    def add(self, queue: str, amounts: Sequence[int], sign: int, *, guaranteed: bool) -> None:
        """Count work that begins (sign 1) or ends (-1) in a queue."""
        self.version += 1
        self.touched.append(queue)
        if len(self.touched) > TOUCHED_MAX:
            self._shares_changed()
        for name in self.paths[queue]:
            self.changed[name] = self.version
            for at, amount in enumerate(amounts):
                self.has[name][at] += sign * amount
                if guaranteed:
                    self.guaranteed[name][at] += sign * amount

    def share_out(
        self,
        capacity: Vector,
        waiting: Mapping[str, Sequence[int]],
        used: Mapping[str, float] | None = None,
    ) -> None:
        """Find the fair shares of all queues of `capacity`, by what they have and wait for.

        `used` is the mean use of each queue of late; it changes weights among siblings.
        """
        self.capacity = tuple(capacity)
        wanted = self._wanted(waiting)
        self._share_below(None, list(capacity), wanted, used or {}, self.fair, WHOLE_GPU)
        self._shares_changed()

    def _shares_changed(self) -> None:
        self.version += 1
        self.shares_version = self.version
        self.touched.clear()

    def parts(self, capacity: Vector) -> dict[str, list[int]]:
        """What each queue would have of `capacity` if all asked for all of it, to a thousandth."""
        found = {name: list(NOTHING) for name in self.tree.queues}
        everything = {
            name: [
                max(amount, quota or 0) if most is None else min(max(amount, quota or 0), most)
                for amount, quota, most in zip(capacity, self.quota[name], limit, strict=True)
            ]
            for name, limit in self.limit.items()
        }
        self._share_below(None, list(capacity), everything, {}, found, 1)
        return found

    def _wanted(self, waiting: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        """What each queue has and waits for, within its limit and those of the queues below.

        A queue does not want for a queue below it what that queue can never have.
        """
        wanted: dict[str, list[int]] = {}
        for name in self._upwards:
            below = self._below.get(name)
            if below:
                sums = [sum(each) for each in zip(*(wanted[q.name] for q in below), strict=True)]
            else:
                sums = list(map(add, self.has[name], waiting.get(name, NOTHING)))
            limit = self.limit[name]
            if limit != UNBOUNDED:
                sums = [
                    amount if most is None else min(amount, most)
                    for amount, most in zip(sums, limit, strict=True)
                ]
            wanted[name] = sums
        return wanted

    def _share_below(
        self,
        parent: str | None,
        total: Sequence[int],
        wanted: Mapping[str, Sequence[int]],
        used: Mapping[str, float],
        shares: dict[str, list[int]],
        gpu_unit: int,
    ) -> None:
        below = self._below.get(parent)
        if not below:
            return
        weights = {queue.name: queue.weight for queue in below}
        if used:
            weights = weights_by_use(weights, used, whole=total[GPU_MILLI])
        for at in range(len(RESOURCES)):
            wants = [wanted[queue.name][at] for queue in below]
            if not any(wants):
                for queue in below:
                    shares[queue.name][at] = 0
                continue
            claims = [
                Claim(
                    want,
                    self.quota[queue.name][at],
                    weights[queue.name],
                    queue.priority,
                    (queue.created_s, queue.name),
                )
                for want, queue in zip(wants, below, strict=True)
            ]
            unit = gpu_unit if at == GPU_MILLI else 1
            for queue, amount in zip(below, divide(total[at], claims, unit), strict=True):
                shares[queue.name][at] = amount
        for queue in below:
            self._share_below(queue.name, shares[queue.name], wanted, used, shares, gpu_unit)

    def over_limit(self, queue: str, amounts: Vector) -> Excess | None:
        """The limit, of the queue or one above it, that these amounts more would break."""
        return self._first(queue, amounts, self.has, self.limit)

    def exceeds_limits(self) -> bool:
        """Whether any queue has more than its limit, as after a limit was lowered."""
        return any(
            bound is not None and has > bound
            for name in self._limited
            for has, bound in zip(self.has[name], self.limit[name], strict=True)
        )

    def over_quota(self, queue: str, amounts: Vector) -> Excess | None:
        """The quota that these amounts more of guaranteed work would break."""
        return self._first(queue, amounts, self.guaranteed, self.quota)

    def ever_over(self, queue: str, amounts: Vector, *, quota: bool) -> Excess | None:
        """The limit (or quota, at any time of a week) that these amounts break alone."""
        bounds = self._quota_most if quota else self.limit
        return self._first(queue, amounts, dict.fromkeys(self.paths[queue], NOTHING), bounds)

    def _first(
        self,
        queue: str,
        amounts: Vector,
        has: Mapping[str, Sequence[int]],
        bounds: Mapping[str, Sequence[int | None]],
    ) -> Excess | None:
        for name in reversed(self.paths[queue]):
            if bounds[name] == UNBOUNDED:
                continue
            for at, amount in enumerate(amounts):
                bound = bounds[name][at]
                if amount and bound is not None and has[name][at] + amount > bound:
                    return Excess(name, RESOURCES[at], has[name][at] + amount, bound)
        return None

    def within(self, queue: str, below: int, amounts: Vector, *, quota: bool) -> bool:
        """Whether a queue stays within quota (or fair share) with `amounts` more, on each level.

        Only levels from `below` down count (0 is the root's), and only requested resources.
        """
        return self._keeps(queue, below, amounts, amounts, quota=quota)

    def is_within(self, queue: str, below: int, amounts: Vector, *, quota: bool) -> bool:
        """Whether a queue that has `amounts` already is within quota (or fair share)."""
        return self._keeps(queue, below, amounts, NOTHING, quota=quota)

    def _keeps(self, queue: str, below: int, amounts: Vector, more: Vector, *, quota: bool) -> bool:
        for name in self.paths[queue][below:]:
            bounds = self.quota[name] if quota else self.fair[name]
            for amount, extra, has, bound in zip(
                amounts, more, self.has[name], bounds, strict=True
            ):
                if amount and bound is not None and has + extra > bound:
                    return False
        return True

    def has_turn(self, queue: str, below: int, amounts: Vector, *, is_in: bool = False) -> bool:
        """Whether `amounts` more are within fair share, or have a turn on credit, on each level.

        Only levels from `below` down count. Credit is for GPUs: it gives more of nothing else. With
        `is_in`, the queue has `amounts` already.
        """
        for name in self.paths[queue][below:]:
            bounds, has = self.fair[name], self.has[name]
            for at, amount in enumerate(amounts):
                if not amount or has[at] + (0 if is_in else amount) <= bounds[at]:
                    continue
                if at != GPU_MILLI or not self._lasts(name, amount):
                    return False
        return True

    def _lasts(self, name: str, gpu_milli: int) -> bool:
        """Whether GPUs are too many for the fair share of a queue, and its credit gives a turn."""
        credit = self.credit.get(name, 0.0)
        return self.is_too_much(name, gpu_milli) and credit >= gpu_milli / WHOLE_GPU * TURN_S

    def is_too_much(self, name: str, gpu_milli: int) -> bool:
        """Whether GPUs would exceed the fair share even if the queue had nothing else."""
        return gpu_milli > self.fair[name][GPU_MILLI]

    def is_over_quota(self, name: str) -> bool:
        """Whether it has more of anything than its quota."""
        for has, quota in zip(self.has[name], self.quota[name], strict=True):
            if quota is not None and has > quota:
                return True
        return False

    def above_quota(self, name: str) -> list[int]:
        """The resources, by position, of which it has more than its quota."""
        pairs = enumerate(zip(self.has[name], self.quota[name], strict=True))
        return [at for at, (has, quota) in pairs if quota is not None and has > quota]

    def is_over_fair_share(self, name: str) -> bool:
        """Whether it has more of anything than its fair share."""
        return any(has > fair for has, fair in zip(self.has[name], self.fair[name], strict=True))

    def above_fair_share(self, name: str) -> list[int]:
        """The resources, by position, of which it has more than its fair share."""
        pairs = zip(self.has[name], self.fair[name], strict=True)
        return [at for at, (has, fair) in enumerate(pairs) if has > fair]

    def is_below_fair_share(self, name: str) -> bool:
        """Whether it has less of anything than its fair share, if that is bounded at all."""
        triples = zip(self.has[name], self.fair[name], self.quota[name], strict=True)
        return any(quota is not None and has < fair for has, fair, quota in triples)

    def is_below_quota(self, name: str) -> bool:
        """Whether it has less GPUs than its quota, although it would want more."""
        quota = self.quota[name][GPU_MILLI]
        least = self.fair[name][GPU_MILLI]
        if quota is not None:
            least = min(least, quota)
        return self.has[name][GPU_MILLI] < least

    def ratio(self, name: str, more: Vector = NOTHING) -> float:
        """What a queue has over what it should have, for the resource with the largest ratio.

        Resources without a bound in its quota do not count: they are never scarce for it.
        """
        most = 0.0
        for has, fair, quota, extra in zip(
            self.has[name], self.fair[name], self.quota[name], more, strict=True
        ):
            if quota is None or not has + extra:
                continue
            should = max(fair, quota)
            most = max(most, (has + extra) / should if should else float("inf"))
        return most

    def part(self, name: str, more: Vector = NOTHING) -> float:
        """A queue's part of the whole cluster, for the resource with the largest part.

        It decides between queues of which `ratio` says nothing: they are due nothing, or all.
        """
        return max(
            (has + extra) / whole if whole else 0.0
            for has, extra, whole in zip(self.has[name], more, self.capacity, strict=True)
        )

    def sides(self, one: str, other: str) -> tuple[str, str]:
        """The two queues in which the paths to two different queues part."""
        return self.parting(one, other)[1:]

    def fork(self, one: str, other: str) -> int:
        """The level on which the paths to two queues part; only for two different queues."""
        return self.parting(one, other)[0]

    def parting(self, one: str, other: str) -> tuple[int, str, str]:
        """The level on which the paths to two different queues part, and their queues there."""
        found = self._partings.get((one, other))
        if found is None:
            mine, theirs = self.paths[one], self.paths[other]
            level = sum(1 for each, its in zip(mine, theirs, strict=False) if each == its)
            found = self._partings[one, other] = level, mine[level], theirs[level]
        return found


def _most(quotas: Sequence[Amounts]) -> tuple[int | None, ...]:
    """The largest bound of each resource; None: at some time there is none."""
    columns = zip(*map(_vector, quotas), strict=True)
    return tuple(
        None if None in column else max(bound for bound in column if bound is not None)
        for column in columns
    )


def _vector(amounts: Amounts) -> tuple[int | None, ...]:
    return tuple(getattr(amounts, resource) for resource in RESOURCES)
