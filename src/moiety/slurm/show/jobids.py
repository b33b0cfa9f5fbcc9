"""Numbers of jobs as people write them: `12`, `12_3`, `12_[1-4,7%2]`, `12.batch`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

PATTERN: Final = re.compile(
    r"(?P<number>\d{1,17})(?:_(?:(?P<index>\d{1,9})|\[(?P<indices>[\d,:-]+)(?:%\d+)?\]|\*))?"
    r"(?:\.(?P<step>batch|extern|interactive|\d{1,9}))?"
)
INDEX_MAX: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class JobId:
    """One job, tasks of an array, or a step of one of them."""

    number: int
    indices: tuple[int, ...] | None = None
    """The tasks of the array that are meant; None: the job, or all of the array."""
    step: str = ""

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.target}.{self.step}" if self.step else self.target

    @property
    def target(self) -> str:
        """The job, as it is asked for."""
        if self.indices is None:
            return str(self.number)
        if len(self.indices) == 1:
            return f"{self.number}_{self.indices[0]}"
        return f"{self.number}_[{compress(self.indices)}]"


def parse(text: str) -> JobId:
    """One number of a job; raises ValueError."""
    found = PATTERN.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    indices: tuple[int, ...] | None = None
    if found["index"] is not None:
        indices = (int(found["index"]),)
    elif found["indices"] is not None:
        indices = expand(found["indices"])
    return JobId(int(found["number"]), indices, found["step"] or "")


def parse_list(text: str) -> list[JobId]:
    """Numbers of jobs with commas between them; raises ValueError for the first that is none."""
    parts, depth, part = list[str](), 0, ""
    for letter in f"{text},":
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            if part.strip():
                parts.append(part)
            part = ""
        else:
            part += letter
    if part.strip(","):
        parts.append(part.strip(","))
    return [parse(each) for each in parts]


def expand(text: str) -> tuple[int, ...]:
    """The indices of `1-4,7,10-20:5`; raises ValueError."""
    found: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", piece)
        if match is None:
            raise ValueError(piece)
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step or last > INDEX_MAX:
            raise ValueError(piece)
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def compress(indices: Iterable[int]) -> str:
    """Indices as Slurm writes them: ranges, and `0-8:2` for equal steps."""
    numbers = sorted(set(indices))
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if step > 1 and all(b - a == step for a, b in pairwise(numbers)):
            return f"{numbers[0]}-{numbers[-1]}:{step}"
    return ranges(numbers)


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as Slurm writes those of tasks: `0-2,5`."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
