"""Who is entitled to what: a tree of queues with quotas, limits and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moiety.model.errors import InvalidValue

RESOURCES: Final = ("gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib")


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
    """A time of day in which another quota holds."""

    from_s: float
    """seconds after midnight"""
    until_s: float
    quota: Amounts
    days: frozenset[int] = frozenset(range(7))
    """0 is Monday"""


@dataclass(frozen=True, slots=True)
class Queue:
    """A node of the tree: a department, a project, a team."""

    name: str
    parent: str | None = None
    quota: Amounts = field(default_factory=lambda: Amounts(gpu_milli=0))
    """what it can have at any time; a resource without bound is never scarce for it"""
    limit: Amounts = field(default_factory=Amounts)
    """what it never has more of"""
    weight: float = 1.0
    """its part of what is left over, among queues of one priority"""
    priority: int = 0
    """what is left over goes to the highest first"""
    windows: tuple[Window, ...] = ()
    created_s: float = 0.0
    """the older one first where nothing else decides"""

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise InvalidValue(f"queue {self.name}: its weight is negative: {self.weight:g}")
        for resource in RESOURCES:
            quota, limit = getattr(self.quota, resource), getattr(self.limit, resource)
            if quota is not None and limit is not None and quota > limit:
                raise InvalidValue(
                    f"queue {self.name}: its quota of {quota} {resource} is above its limit, "
                    f"{limit}"
                )


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

    def above_parents(self) -> list[tuple[str, str, int, int]]:
        """(parent, resource, sum of the children's quotas, its own quota) where the sum is more."""
        found = []
        for parent, below in self.children.items():
            if parent is None:
                continue
            for resource in RESOURCES:
                whole = getattr(self.queues[parent].quota, resource)
                parts = [getattr(queue.quota, resource) for queue in below]
                total = sum(part for part in parts if part is not None)
                if whole is not None and total > whole:
                    found.append((parent, resource, total, whole))
        return found
