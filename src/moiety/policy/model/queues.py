"""A tree of queues with quotas, limits and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from moiety.model.errors import InvalidValue

UNITS: Final = {
    "gpu_milli": ("GPUs", 1000),
    "gpu_memory_mib": ("MiB of GPU memory", 1),
    "cpu_milli": ("CPUs", 1000),
    "memory_mib": ("MiB of memory", 1),
}
"""By resource: what texts call it, and how much of it that is."""
RESOURCES: Final = tuple(UNITS)
DAY_S: Final = 86400
WEEK_S: Final = 7 * DAY_S
DAY_NAMES: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Amounts:
    """An amount of each resource; None: without bound."""

    gpu_milli: int | None = None
    gpu_memory_mib: int | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None

    def __post_init__(self) -> None:
        for name in RESOURCES:
            amount = getattr(self, name)
            if amount is not None and amount < 0:
                raise InvalidValue(f"{name} is negative: {amount}")


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day in which another quota holds. Raises InvalidValue for an empty one.

    A window that ends before it begins goes past midnight, and belongs to its first day.
    """

    from_s: float
    """Seconds after midnight."""
    until_s: float
    quota: Amounts
    days: frozenset[int] = frozenset(range(7))
    """0 is Monday"""

    def __post_init__(self) -> None:
        if not (0 <= self.from_s < DAY_S and 0 <= self.until_s <= DAY_S):
            raise InvalidValue(
                f"a time of day from {self.from_s:g} s until {self.until_s:g} s after midnight"
            )
        if self.from_s == self.until_s or not self.days:
            raise InvalidValue("a time of day that ends when it begins, or on no day")

    def spans(self) -> list[tuple[float, float]]:
        """The spans of a week, in seconds from Monday's midnight; the last may end in the next."""
        lasts = (self.until_s - self.from_s) % DAY_S or DAY_S
        return [(day * DAY_S + self.from_s, day * DAY_S + self.from_s + lasts) for day in self.days]


@dataclass(frozen=True, slots=True)
class Queue:
    """A node of the tree: a department, a project, a team."""

    name: str
    parent: str | None = None
    quota: Amounts = field(default_factory=lambda: Amounts(gpu_milli=0))
    """What it can have at any time; a resource without bound is never scarce for it."""
    limit: Amounts = field(default_factory=Amounts)
    """The most that it ever has."""
    weight: float = 1.0
    """Its part of the surplus, among queues of one priority."""
    priority: int = 0
    """The surplus goes to the highest priority first."""
    windows: tuple[Window, ...] = ()
    """No two windows are open at once."""
    created_s: float = 0.0
    """The older queue goes first where nothing else decides."""

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise InvalidValue(f"queue {self.name}: its weight is negative: {self.weight:g}")
        for resource in RESOURCES:
            quota, limit = getattr(self.quota, resource), getattr(self.limit, resource)
            if quota is not None and limit is not None and quota > limit:
                raise InvalidValue(
                    f"queue {self.name}: its quota of {_said(quota, resource)} is above its "
                    f"limit, {_said(limit, resource)}"
                )
            for window in self.windows:
                own = getattr(window.quota, resource)
                if own is not None and limit is not None and own > limit:
                    raise InvalidValue(
                        f"queue {self.name}: its quota of {_said(own, resource)} for a time of "
                        f"day is above its limit, {_said(limit, resource)}"
                    )
        both = _overlap(self.windows)
        if both:
            raise InvalidValue(f"queue {self.name}: two times of day overlap, {both}")

    def quota_at(self, since_monday_s: float) -> Amounts:
        """The quota that holds at a time: that of the open window, or the usual one."""
        second = since_monday_s % WEEK_S
        for window in self.windows:
            for begin, end in window.spans():
                if begin <= second < end or begin <= second + WEEK_S < end:
                    return window.quota
        return self.quota


class QueueTree:
    """All queues of a cluster by name; raises InvalidValue for a loop or an unknown parent."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues: dict[str, Queue] = {}
        for queue in queues:
            if queue.name in self.queues:
                raise InvalidValue(f"there are two queues {queue.name}")
            self.queues[queue.name] = queue
        children: dict[str | None, list[Queue]] = {}
        for queue in self.queues.values():
            if queue.parent is not None and queue.parent not in self.queues:
                raise InvalidValue(f"queue {queue.name}: there is no queue {queue.parent} above it")
            children.setdefault(queue.parent, []).append(queue)
        self.children: Mapping[str | None, list[Queue]] = children
        for name in self.queues:
            self.path(name)

    def path(self, name: str) -> tuple[str, ...]:
        """From the root to the queue."""
        found: list[str] = []
        at: str | None = name
        while at is not None:
            if at in found:
                loop = " below ".join([*found[found.index(at) :], at])
                raise InvalidValue(f"queues go round in a loop: {loop}")
            found.append(at)
            at = self.queues[at].parent
        return tuple(reversed(found))

    def borders(self) -> tuple[float, ...]:
        """Seconds after Monday's midnight at which any quota changes, in order."""
        ends = {
            end % WEEK_S
            for queue in self.queues.values()
            for window in queue.windows
            for span in window.spans()
            for end in span
        }
        return tuple(sorted(ends))

    def above_parents(self, since_monday_s: float | None = None) -> list[tuple[str, str, int, int]]:
        """(parent, resource, sum of the children's quotas, its own quota) where the sum is more.

        The quotas are the usual ones, or those that hold at `since_monday_s`.
        """

        def quota_of(queue: Queue) -> Amounts:
            return queue.quota if since_monday_s is None else queue.quota_at(since_monday_s)

        found = []
        for parent, below in self.children.items():
            if parent is None:
                continue
            for resource in RESOURCES:
                whole = getattr(quota_of(self.queues[parent]), resource)
                parts = [getattr(quota_of(queue), resource) for queue in below]
                total = sum(part for part in parts if part is not None)
                if whole is not None and total > whole:
                    found.append((parent, resource, total, whole))
        return found

    def ever_above_parents(self) -> list[tuple[str, str, int, int, str]]:
        """The same with when: "" for usual quotas, else the first time of a week."""
        found = [(*each, "") for each in self.above_parents()]
        seen = {(parent, resource) for parent, resource, *_ in found}
        for at_s in self.borders():
            for parent, resource, total, whole in self.above_parents(at_s):
                if (parent, resource) not in seen:
                    seen.add((parent, resource))
                    found.append((parent, resource, total, whole, _when(at_s)))
        return found


def _said(amount: int, resource: str) -> str:
    """An amount of a resource in words: `1.5 GPUs`."""
    what, one = UNITS[resource]
    return f"{amount / one:.15g} {what}"


def _overlap(windows: tuple[Window, ...]) -> str:
    """Two spans that overlap, in words; "" if none do."""
    spans = sorted(span for window in windows for span in window.spans())
    if len(spans) > 1:
        spans.append((spans[0][0] + WEEK_S, spans[0][1] + WEEK_S))
    for (begin, end), (later, ends) in pairwise(spans):
        if later < end:
            one, other = f"{_when(begin)} to {_when(end)}", f"{_when(later)} to {_when(ends)}"
            return f"{one} and {other}"
    return ""


def _when(since_monday_s: float) -> str:
    day, second = divmod(since_monday_s % WEEK_S, DAY_S)
    return f"{DAY_NAMES[int(day)]} {_clock(second)}"


def _clock(second: float) -> str:
    hours, minutes = divmod(int(second) // 60, 60)
    return f"{hours:02}:{minutes:02}"
