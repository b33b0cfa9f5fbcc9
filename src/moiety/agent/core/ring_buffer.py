"""The last records of the timeline, in memory of a fixed size.

As tuples in a deque, 49,152 records took up to 12 MiB, depending on how many of their numbers were
different objects, and were allocated among all other objects of the agent. Here they take 2 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeVar, overload

SpanRecord = tuple[str, int, int, float, float, int, str]
"""Kind, tenant, GPU, begin, end, bytes, detail."""
SampleRecord = tuple[float, int, int, int]
"""Time, tenant, GPU, resident bytes."""
KINDS: Final = (
    "joined", "left", "refused", "overdue",
    "waiting", "growing", "held", "telling", "draining", "evicting", "restoring",
)  # fmt: skip
BYTES_MAX: Final = (1 << 63) - 1
"""Largest amount that a record holds; a larger claim is not credible."""
SPAN: Final = Struct("=Bqqddq")
"""A SpanRecord without its detail."""
SAMPLE: Final = Struct("=dqqq")
_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}
Record = TypeVar("Record")


class Ring(Sequence[Record]):
    """The last `most` records of one layout, the oldest first."""

    def __init__(self, most: int, layout: Struct) -> None:
        self.most = most
        self.seen = 0
        """Number of records ever appended."""
        self._dropped = 0
        """Number of records that were dropped before the ring was full."""
        self._width = layout.size
        self._bytes = bytearray(most * layout.size)
        self._pack_into = layout.pack_into
        self._unpack_from = layout.unpack_from

    @property
    def first(self) -> int:
        """The number of the oldest kept record, counted from the first one ever appended."""
        return max(self._dropped, self.seen - self.most)

    def __len__(self) -> int:
        """Number of records that are kept."""
        return self.seen - self.first

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        """Return one record, or a copy of a slice; raises IndexError."""
        numbers = range(self.first, self.seen)[index]
        if isinstance(numbers, range):
            return [self._read(number % self.most) for number in numbers]
        return self._read(numbers % self.most)

    def _read(self, place: int) -> Record:
        raise NotImplementedError


class Spans(Ring[SpanRecord]):
    """Spans of time, and moments."""

    def __init__(self, most: int) -> None:
        super().__init__(most, SPAN)
        self._details = [""] * most
        """Details by slot; records with the same text share one object."""

    def append(self, record: SpanRecord) -> None:
        """Add a record; a full ring loses its oldest."""
        kind, tenant, gpu, begin_s, end_s, amount, detail = record
        place = self.seen % self.most
        amount = min(BYTES_MAX, amount)
        at, number = place * self._width, _NUMBERS[kind]
        self._pack_into(self._bytes, at, number, tenant, gpu, begin_s, end_s, amount)
        self._details[place] = detail
        self.seen += 1

    @property
    def oldest_end_s(self) -> float:
        """When the oldest record ended; the ring must not be empty."""
        end_s: float = self._unpack_from(self._bytes, self.first % self.most * self._width)[4]
        return end_s

    def drop_oldest(self) -> None:
        """Drop the oldest record; the ring must not be empty."""
        first = self.first
        self._details[first % self.most] = ""
        self._dropped = first + 1

    def _read(self, place: int) -> SpanRecord:
        at = place * self._width
        kind, tenant, gpu, begin_s, end_s, amount = self._unpack_from(self._bytes, at)
        return KINDS[kind], tenant, gpu, begin_s, end_s, amount, self._details[place]


class Samples(Ring[SampleRecord]):
    """How much of a tenant was on a GPU from a moment on."""

    def __init__(self, most: int) -> None:
        super().__init__(most, SAMPLE)

    def append(self, at_s: float, tenant: int, gpu: int, resident_bytes: int) -> None:
        """Add a record; a full ring loses its oldest."""
        at = self.seen % self.most * self._width
        amount = min(BYTES_MAX, resident_bytes)
        self._pack_into(self._bytes, at, at_s, tenant, gpu, amount)
        self.seen += 1

    def _read(self, place: int) -> SampleRecord:
        at_s, tenant, gpu, resident_bytes = self._unpack_from(self._bytes, place * self._width)
        return at_s, tenant, gpu, resident_bytes
