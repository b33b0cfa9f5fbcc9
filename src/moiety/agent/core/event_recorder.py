"""The last events of the arbiter with their instructions, in memory that is allocated at the start.

There are two segments. Each begins with a checkpoint of the arbiter, so that what is in it can be
decided again. When one is full, the other is emptied and begun anew. So between half of the memory
and all of it is in use, and the oldest events that are kept always have a starting point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moiety.agent.core.step_codec import LENGTH, pack, pack_checkpoint
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import Checkpoint

SEGMENT_BYTES: Final = 2 << 20
"""Size of each of the two segments: minutes of many hand-offs, or hours of few."""
RESERVE_PART: Final = 64
"""A segment is full when less than 1/RESERVE_PART is left; most events are far smaller."""
PAGE_BYTES: Final = 96 << 10
"""Most bytes that are read at one time; few, so that no program waits for a reader."""


@dataclass(slots=True)
class _Segment:
    """Records, one behind the other; the first is the checkpoint (empty: there is none)."""

    memory: bytearray
    number: int = 0
    used: int = 0
    first: int = 0
    """Offset of the first event."""
    has_start: bool = False
    follows: bool = False
    """True if it continues where the segment before it ends."""

    def add(self, record: bytes) -> bool:
        """Write one record behind the others; False: it does not fit."""
        begin = self.used + LENGTH.size
        end = begin + len(record)
        if end > len(self.memory):
            return False
        LENGTH.pack_into(self.memory, self.used, len(record))
        self.memory[begin:end] = record
        self.used = end
        return True


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the recording. `data` continues the page before, unless `is_lost`."""

    data: bytes
    segment: int
    """Segment of the next page; 0: nothing can be replayed now."""
    offset: int
    more: bool
    is_lost: bool = False
    """True if this page is not kept any more: the reader begins anew."""


class StepRecorder:
    """Writes down every step of the arbiter, after its instructions were carried out."""

    def __init__(
        self, checkpoint: Callable[[], Checkpoint], segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """`checkpoint` is the state between two steps; the first one is taken now."""
        self._checkpoint = checkpoint
        self._reserve = segment_bytes // RESERVE_PART
        self._old, self._new = (_Segment(bytearray(segment_bytes)) for _ in range(2))
        self._open: tuple[float, ev.Event] | None = None
        self._told: list[do.Instruction] = []
        self.told: Final = self._told.append
        """Adds an instruction to the present step."""
        self._turn_over(follows=False)

    def begin(self, now_s: float, event: ev.Event) -> None:
        """Note that a step begins."""
        if self._open is not None:  # the step before it was broken off by an exception
            self.end()
        self._open = now_s, event

    def end(self) -> None:
        """Write the step down."""
        if self._open is None:
            return
        try:
            record = pack(*self._open, self._told)
        except (TypeError, ValueError):  # for instance a text that cannot be encoded
            record = None
        self._open = None
        self._told.clear()
        if record is None or not self._new.add(record):
            self._turn_over(follows=False)
        elif len(self._new.memory) - self._new.used < self._reserve:
            self._turn_over(follows=True)

    def _turn_over(self, *, follows: bool) -> None:
        """Go on in the other segment."""
        number = self._new.number + 1
        self._old, self._new = self._new, self._old
        segment = self._new
        segment.number, segment.used, segment.follows = number, 0, follows
        try:
            start = pack_checkpoint(self._checkpoint())
        except (TypeError, ValueError):
            start = b""
        if len(start) > len(segment.memory) // 2:
            start = b""
        segment.has_start = bool(start)
        segment.add(start)
        segment.first = segment.used

    def page(self, number: int = 0, offset: int = 0) -> Page:
        """Return the page at this offset of a segment; number 0: at the oldest starting point."""
        old, new = self._old, self._new
        if not number:
            if old.has_start and new.follows:
                return self._page(old, 0)
            if new.has_start:
                return self._page(new, 0)
            return Page(b"", 0, 0, more=False)
        if number == new.number:
            return self._page(new, offset)
        if number == old.number and new.follows:
            return self._page(old, offset)
        return Page(b"", 0, 0, more=True, is_lost=True)

    def _page(self, segment: _Segment, offset: int) -> Page:
        end = min(segment.used, offset + PAGE_BYTES)
        data = bytes(memoryview(segment.memory)[offset:end])
        if segment is self._old and end >= segment.used:
            return Page(data, self._new.number, self._new.first, more=True)
        return Page(data, segment.number, end, more=end < segment.used)
