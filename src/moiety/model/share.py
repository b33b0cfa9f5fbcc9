"""What a workload asks of a GPU: how much of its time, how much of its memory, and how urgently.

This is the one place that says which shares make sense. Whether one can be promised beside those
of others depends on the node and is decided by the arbiter.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import IntEnum

from moiety.model.errors import InvalidPriority, MemoryAboveLimit, RequestAboveLimit
from moiety.model.format import format_bytes, format_fraction


class Priority(IntEnum):
    """A class: whoever is in a higher one goes before whoever is in a lower one."""

    LOW = 0
    NORMAL = 1
    HIGH = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Share:
    """What a workload asks of a GPU. Raises RequestAboveLimit or MemoryAboveLimit."""

    gpu: float | None = None
    """the part of the GPU's time that it is guaranteed; None: as much as others who ask nothing"""
    gpu_limit: float = 1.0
    """the largest part that it may have, also when nobody else wants any"""
    memory_bytes: int = 0
    """what stays on the GPU while others run"""
    memory_limit_bytes: int | None = None
    """the most that it may allocate; None: what the GPU has"""
    priority: Priority = Priority.NORMAL
    latency: bool = False
    """it goes first at once, before all priorities"""

    def __post_init__(self) -> None:
        if self.gpu is not None and self.gpu > self.gpu_limit:
            raise RequestAboveLimit(self.gpu, self.gpu_limit)
        limit = self.memory_limit_bytes
        if limit is not None and self.memory_bytes > limit:
            raise MemoryAboveLimit(self.memory_bytes, limit)

    @property
    def is_timed(self) -> bool:
        """Whether it can be held only by taking turns, however much memory there is."""
        return self.gpu is not None or self.gpu_limit < 1

    @property
    def rank(self) -> int:
        """Higher goes first."""
        return self.priority + len(Priority) * self.latency

    def among(self, count: int) -> Share:
        """The part of each of `count` processes that share it; a memory limit holds for each."""
        if count <= 1:
            return self
        return dataclasses.replace(
            self,
            gpu=None if self.gpu is None else self.gpu / count,
            gpu_limit=self.gpu_limit if self.gpu_limit >= 1 else self.gpu_limit / count,
            memory_bytes=self.memory_bytes // count,
        )

    def __str__(self) -> str:
        parts = []
        if self.gpu is not None:
            parts.append(f"{format_fraction(self.gpu)} of the GPU")
        if self.gpu_limit < 1:
            parts.append(f"at most {format_fraction(self.gpu_limit)}")
        if self.memory_bytes:
            parts.append(f"{format_bytes(self.memory_bytes)} kept")
        if self.memory_limit_bytes is not None:
            parts.append(f"at most {format_bytes(self.memory_limit_bytes)}")
        return ", ".join([*parts, "latency" if self.latency else f"priority {self.priority}"])


NOTHING_ASKED = Share()
"""an equal part, whatever the others ask for"""


def parse_priority(text: str) -> Priority:
    """A class by its name. Raises InvalidPriority."""
    try:
        return Priority[text.strip().upper()]
    except KeyError:
        raise InvalidPriority(text, [str(each) for each in Priority]) from None
