"""The indices of an array of workloads, as `--array 0-9:3,12%2` has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from moiety.model.errors import BadArgument

INDEX_MAX: Final = 4_000_000
TASKS_MAX: Final = 10_000
"""The most tasks of one array: they are written in one transaction."""
RUN_MIN: Final = 3
"""Numbers with the same step between them are shown as a range from this many on."""
TASK: Final = re.compile(r"([0-9]{1,17})_([0-9]{1,7})")
"""`12_3`: a task of an array."""
TASKS: Final = re.compile(r"([0-9]{1,17})_\[([0-9,:-]{1,4096})\]")
"""`12_[4-9]`: some tasks of an array, as the queue shows those that wait."""
_PART: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")
_HINT: Final = "--array 0-9, 0-9:3,12 or 0-99%4, say"


@dataclass(frozen=True, slots=True)
class ArrayIndices:
    """Which tasks an array has."""

    indices: tuple[int, ...]
    """In ascending order."""
    at_once: int = 0
    """How many may have GPUs at the same time; 0: all."""


def parse_array(text: str) -> ArrayIndices:
    """The tasks that `0-9:3,12%2` means; raises BadArgument."""
    listed, mark, limit = text.partition("%")
    is_number = limit.isascii() and limit.isdecimal() and len(limit) < 10
    if mark and not (is_number and 0 < int(limit) <= TASKS_MAX):
        raise BadArgument(f"{limit[:20]!r} is no number of tasks at once", _HINT)
    return ArrayIndices(parse_indices(listed), int(limit) if mark else 0)


def parse_indices(text: str) -> tuple[int, ...]:
    """The numbers that `0-9:3,12` means, in ascending order; raises BadArgument."""
    found: set[int] = set()
    named = 0
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadArgument(f"{part[:40]!r} is no index of an array", _HINT)
        first, last, step = (int(each) if each else None for each in match.groups())
        assert first is not None, "the pattern needs it"
        last = first if last is None else last
        if last < first or step == 0 or last > INDEX_MAX:
            raise BadArgument(f"{part!r} has no index from 0 to {INDEX_MAX}", _HINT)
        numbers = range(first, last + 1, step or 1)
        named += len(numbers)
        if named > 2 * TASKS_MAX:  # also if the same ones are named again and again
            raise _too_many()
        found.update(numbers)
    if len(found) > TASKS_MAX:
        raise _too_many()
    return tuple(sorted(found))


def format_indices(indices: Iterable[int]) -> str:
    """The same the other way round: `0-9:3,12`."""
    numbers = sorted(indices)
    parts, at = [], 0
    while at < len(numbers):
        run = _run(numbers, at)
        step = numbers[at + 1] - numbers[at] if run > 1 else 1
        if run >= RUN_MIN or (run > 1 and step == 1):
            tail = "" if step == 1 else f":{step}"
            parts.append(f"{numbers[at]}-{numbers[at + run - 1]}{tail}")
        else:
            run = 1
            parts.append(str(numbers[at]))
        at += run
    return ",".join(parts)


def _run(numbers: list[int], at: int) -> int:
    """How many numbers from here on have the same step between them."""
    end = at + 1
    while end < len(numbers) and numbers[end] - numbers[end - 1] == numbers[at + 1] - numbers[at]:
        end += 1
    return end - at


def _too_many() -> BadArgument:
    return BadArgument(f"an array has at most {TASKS_MAX} tasks", "several arrays")
