"""The share of a GPU that a workload asks for: time, memory, priority and latency class.

This is the one place that decides which shares make sense. Whether a share can be promised beside
other shares depends on the node; the arbiter decides it.
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
    LimitAboveGpu,
    MemoryAboveLimit,
    RequestAboveLimit,
)
from moiety.model.format import format_bytes, format_duration, format_fraction
from moiety.model.units import LIMIT_PART_MAX

QUANTUM_MIN_S: Final = 0.001
"""A shorter turn would be over before the messages about it were read."""
QUANTUM_MAX_S: Final = 3600.0


class Priority(IntEnum):
    """A priority: a workload of a higher one goes before workloads of lower ones."""

    LOW = 0
    NORMAL = 1
    HIGH = 2

    def __str__(self) -> str:
        return self.name.lower()


class Mode(StrEnum):
    """How memory leaves a GPU for another tenant's turn."""

    SWAP = "swap"
    """Moiety moves chunks together, before the other tenant's turn."""
    MANAGED = "managed"
    """The driver moves single pages when the other tenant touches them in its turn."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a workload asks of a GPU. Raises an InvalidValue if the values contradict."""

    gpu: float | None = None
    """The guaranteed part of the GPU's time; None: an equal part of the rest."""
    gpu_limit: float = 1.0
    """The largest part of the GPU's time, also when no other workload wants any."""
    memory_bytes: int = 0
    """Bytes that stay on the GPU while others run."""
    memory_limit_bytes: int | None = None
    """The most bytes that it may allocate; None: all memory of the GPU."""
    priority: Priority = Priority.NORMAL
    latency: bool = False
    """True: it goes first at once, before all priorities."""
    quantum_s: float | None = None
    """The length of its turns in seconds; None: the agent's quantum."""
    mode: Mode = Mode.SWAP
    """How its memory leaves the GPU; it holds for memory allocated from now on."""
    memory_limit_part: float | None = None
    """The most that it may allocate, as a part of the memory of the GPU; None: no such limit."""

    def __post_init__(self) -> None:
        # Any client can send the values: values out of range would count against others.
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
        if (part := self.memory_limit_part) is not None:
            if not 0 < part <= LIMIT_PART_MAX:
                raise InvalidSize(f"{part:.0%}", "is no part of the memory of a GPU")
            if part > 1 and self.mode is not Mode.MANAGED:
                raise LimitAboveGpu(part)
        if self.quantum_s is not None:
            check_quantum(self.quantum_s)

    def asked_limit_bytes(self, capacity: int) -> int | None:
        """The limit on a GPU that shares out `capacity` bytes; None: it asks for none."""
        found = [] if self.memory_limit_bytes is None else [self.memory_limit_bytes]
        if self.memory_limit_part is not None:
            found.append(int(self.memory_limit_part * capacity))
        return min(found, default=None)

    def limit_bytes(self, capacity: int) -> int:
        """The most that it may allocate on such a GPU: more than that has in managed mode only."""
        limit = self.asked_limit_bytes(capacity)
        if limit is None:
            return capacity
        return limit if self.mode is Mode.MANAGED else min(limit, capacity)

    @property
    def is_timed(self) -> bool:
        """Whether only turns can keep it, however much memory there is."""
        return self.gpu is not None or self.gpu_limit < 1

    def guarantees_within(self, other: Share) -> bool:
        """Whether it guarantees no more than another, neither of the time nor of the memory."""
        return (self.gpu or 0.0) <= (other.gpu or 0.0) and self.memory_bytes <= other.memory_bytes

    @property
    def rank(self) -> int:
        """Higher goes first."""
        return self.priority + len(Priority) * self.latency

    def among(self, count: int) -> Share:
        """The share of each of `count` processes that share this one.

        The memory limit is not divided: it holds for what all of them have allocated together.
        """
        if count <= 1:
            return self
        return dataclasses.replace(
            self,
            gpu=None if self.gpu is None else self.gpu / count,
            gpu_limit=self.gpu_limit if self.gpu_limit >= 1 else self.gpu_limit / count,
            memory_bytes=self.memory_bytes // count,
        )

    @property
    def without_promises(self) -> Share:
        """The same share while its program is suspended: nothing is guaranteed to it."""
        if self.gpu is None and not self.memory_bytes:
            return self
        return dataclasses.replace(self, gpu=None, memory_bytes=0)

    @property
    def of_time(self) -> str:
        """Request and limit of the GPU's time, for a table: `30 %`, `30 %, <= 50 %`, or `-`."""
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
        if self.memory_limit_part is not None:
            parts.append(f"at most {format_fraction(self.memory_limit_part)} of the GPU's memory")
        if self.quantum_s is not None:
            parts.append(f"turns of {format_duration(self.quantum_s)}")
        parts.append("latency" if self.latency else f"priority {self.priority}")
        if self.mode is not Mode.SWAP:
            parts.append(f"{self.mode} memory")
        return ", ".join(parts)


NOTHING_ASKED = Share()
"""An equal part, without a guarantee."""


def check_quantum(quantum_s: float) -> float:
    """The length of a turn, if it is allowed. Raises InvalidDuration."""
    if not QUANTUM_MIN_S <= quantum_s <= QUANTUM_MAX_S:
        least, most = format_duration(QUANTUM_MIN_S), format_duration(QUANTUM_MAX_S)
        problem = f"is no length of a turn: those last {least} to {most}"
        raise InvalidDuration(format_duration(quantum_s), problem)
    return quantum_s


def parse_priority(text: str) -> Priority:
    """A priority by its name. Raises InvalidPriority."""
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
