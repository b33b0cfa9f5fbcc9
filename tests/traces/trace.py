"""A trace as it lies in a file: the calls of one process, with names for handles and addresses."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from pathlib import Path

from tests.traces.signature import plain

FOLDER = Path(__file__).parent / "recorded"
"""those that are in the repository"""
FIXED_BYTES = 2 << 20
"""memory up to this size is never made smaller"""
GRANULE = 2 << 20


@dataclass(frozen=True)
class Step:
    """One call."""

    number: int
    after_us: int
    thread: int
    name: str
    result: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """One process."""

    path: Path
    about: dict[str, list[str]]
    """its head: recorded, program, memory, unseen"""
    steps: tuple[Step, ...]

    @property
    def memory_bytes(self) -> int:
        """The most device memory that it had at a time."""
        return int(self.about["memory"][0])

    @cached_property
    def mapped_units(self) -> dict[str, int]:
        """Of what sizes and places are multiples in each range of addresses, and for each chunk."""
        units: dict[str, int] = {}
        chunks: dict[str, str] = {}
        for step in self.steps:
            if plain(step.name) == "cuMemMap" and step.result == 0:
                place = name(step.words[0])
                unit = gcd(int(step.words[1]), offset(step.words[0]), int(step.words[2]))
                units[place] = gcd(units.get(place, 0), unit)
                chunks[step.words[3]] = place
        never = {  # mapped: a chunk is a whole
            step.words[0][1:]: int(step.words[1])
            for step in self.steps
            if plain(step.name) == "cuMemCreate" and step.result == 0
        }
        return {**never, **units, **{chunk: units[place] for chunk, place in chunks.items()}}

    @cached_property
    def reserved(self) -> set[str]:
        """Names of ranges of addresses."""
        return {
            step.words[0][1:]
            for step in self.steps
            if plain(step.name) == "cuMemAddressReserve" and step.result == 0
        }

    @cached_property
    def rigid(self) -> set[str]:
        """Names of memory that is copied in rows: it keeps its size."""
        return {
            name(part.partition(":")[2])
            for step in self.steps
            for word in step.words
            if word.startswith("=")
            for part in word.split(";")[1:]
            if part.partition(":")[2].startswith("m")
        } | {
            step.words[0][1:]
            for step in self.steps
            if plain(step.name) == "cuMemAllocPitch_v2" and step.result == 0
        }


def name(word: str) -> str:
    """`m3` of `m3+16`."""
    return word.partition("+")[0]


def offset(word: str) -> int:
    """16 of `m3+16`."""
    return int(word.partition("+")[2] or 0)


def load(path: Path) -> Trace:
    """Read one.

    Raises:
        ValueError: it is none.
    """
    text = lzma.decompress(path.read_bytes()).decode()
    if not text.startswith("# trace 1\n"):
        raise ValueError(f"{path} is no trace; python -m tests.traces.pack makes one")
    about: dict[str, list[str]] = {}
    steps: list[Step] = []
    for line in text.splitlines():
        if line.startswith("# "):
            word, _, rest = line[2:].partition(" ")
            about.setdefault(word, []).append(rest)
        else:
            after, thread, called, result, *words = line.split(" ")
            steps.append(
                Step(len(steps), int(after), int(thread), called, int(result), tuple(words))
            )
    return Trace(path, about, tuple(steps))
