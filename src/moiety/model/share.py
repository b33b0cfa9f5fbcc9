"""What a workload asks of a GPU: how much of its time, how much of its memory, and how urgently.

This is the one place that says which shares make sense. Whether one can be promised beside those
of others depends on the node and is decided by the arbiter.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from moiety.model.errors import (
    InvalidDuration,
    InvalidFraction,
    InvalidMode,
    InvalidPriority,
    InvalidSize,
    KeptManaged,
    MemoryAboveLimit,
    RequestAboveLimit,
)
from moiety.model.format import format_bytes, format_duration, format_fraction

QUANTUM_MIN_S: Final = 0.001
"""a shorter turn would be over before the messages about it were read"""
QUANTUM_MAX_S: Final = 3600.0


class Priority(IntEnum):
    """A class: whoever is in a higher one goes before whoever is in a lower one."""

    LOW = 0
    NORMAL = 1
    HIGH = 2

    def __str__(self) -> str:
        return self.name.lower()


class Mode(StrEnum):
    """How memory leaves a GPU for another tenant's turn."""

    SWAP = "swap"
    """in chunks that moiety moves at once, before the other one's turn"""
    MANAGED = "managed"
    """in pages that the driver moves one by one, when they are touched in that turn"""


@dataclass(frozen=True, slots=True)
class Share:
    """What a workload asks of a GPU. Raises an InvalidValue if it makes no sense in itself."""

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
    quantum_s: float | None = None
    """how long its turns are; None: as the agent makes them"""
    mode: Mode = Mode.SWAP
    """how its memory leaves; of what is allocated from now on"""

    def __post_init__(self) -> None:
        # They are made from what anybody sends: out of range they would count against others.
        for part in (self.gpu, self.gpu_limit):
            if part is not None and not 0 < part <= 1:
                raise InvalidFraction(f"{part:g}")
        for amount in (self.memory_bytes, self.memory_limit_bytes):
            if amount is not None and amount < 0:
                raise InvalidSize(format_bytes(amount))
        if self.gpu is not None and self.gpu > self.gpu_limit:
            raise RequestAboveLimit(self.gpu, self.gpu_limit)
        limit = self.memory_limit_bytes
        if limit is not None and self.memory_bytes > limit:
            raise MemoryAboveLimit(self.memory_bytes, limit)
        if self.mode is Mode.MANAGED and self.memory_bytes:
            raise KeptManaged(self.memory_bytes)
        if self.quantum_s is not None:
            check_quantum(self.quantum_s)

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

    @property
    def of_time(self) -> str:
        """What was asked of the GPU's time, for a table: `30 %`, `30 %, <= 50 %`, or `-`."""
        found = [format_fraction(round(self.gpu, 2))] if self.gpu is not None else []
        if self.gpu_limit < 1:
            found.append(f"<= {format_fraction(round(self.gpu_limit, 2))}")
        return ", ".join(found) or "-"

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
        if self.quantum_s is not None:
            parts.append(f"turns of {format_duration(self.quantum_s)}")
        parts.append("latency" if self.latency else f"priority {self.priority}")
        if self.mode is not Mode.SWAP:
            parts.append(f"{self.mode} memory")
        return ", ".join(parts)


NOTHING_ASKED = Share()
"""an equal part, whatever the others ask for"""


def check_quantum(quantum_s: float) -> float:
    """The length of a turn, if there can be such turns. Raises InvalidDuration."""
    if not QUANTUM_MIN_S <= quantum_s <= QUANTUM_MAX_S:
        least, most = format_duration(QUANTUM_MIN_S), format_duration(QUANTUM_MAX_S)
        problem = f"is no length of a turn: those last {least} to {most}"
        raise InvalidDuration(format_duration(quantum_s), problem)
    return quantum_s


def parse_priority(text: str) -> Priority:
    """A class by its name. Raises InvalidPriority."""
    try:
        return Priority[text.strip().upper()]
    except KeyError:
        raise InvalidPriority(text, [str(each) for each in Priority]) from None


def parse_mode(text: str) -> Mode:
    """A mode by its name. Raises InvalidMode."""
    try:
        return Mode(text.strip().lower())
    except ValueError:
        raise InvalidMode(text, [str(each) for each in Mode]) from None
