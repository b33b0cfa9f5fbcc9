"""Lists of hosts as Slurm writes them: `n[01-03,7],gpu`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

HOSTS_MAX: Final = 65536
NUMBERED: Final = re.compile(r"(.*?)(\d+)$")
RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> list[str]:
    """The hosts of a list, in its order; raises ValueError."""
    found: list[str] = []
    for part in _split(text):
        found += _expand_one(part)
        if len(found) > HOSTS_MAX:
            raise ValueError("too many hosts")
    return found


def compress(hosts: Sequence[str]) -> str:
    """The list of hosts; neighbours with numbers of one length become a range."""
    found: list[str] = []
    at = 0
    while at < len(hosts):
        match = NUMBERED.fullmatch(hosts[at])
        if match is None:
            found.append(hosts[at])
            at += 1
            continue
        prefix, ranges = match[1], list[list[str]]()
        while at < len(hosts):
            other = NUMBERED.fullmatch(hosts[at])
            if other is None or other[1] != prefix:
                break
            _add(ranges, other[2])
            at += 1
        texts = [first if first == last else f"{first}-{last}" for first, last in ranges]
        is_one = len(texts) == 1 and "-" not in texts[0]
        found.append(f"{prefix}{texts[0]}" if is_one else f"{prefix}[{','.join(texts)}]")
    return ",".join(found)


def _add(ranges: list[list[str]], number: str) -> None:
    if ranges:
        last = ranges[-1][1]
        has_width = len(number) == len(last) or not number.startswith("0")
        if int(number) == int(last) + 1 and len(number) >= len(last) and has_width:
            ranges[-1][1] = number
            return
    ranges.append([number, number])


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are not in brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError("brackets do not match")
        if letter == "," and not depth:
            if part:
                yield part
            part = ""
        else:
            part += letter
    if depth:
        raise ValueError("brackets do not match")
    if part:
        yield part


def _expand_one(part: str) -> list[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, after = rest.partition("]")
    ends = _expand_one(after) if after else [""]
    found: list[str] = []
    for piece in inside.split(","):
        match = RANGE.fullmatch(piece.strip())
        if match is None or len(piece) > 40:
            raise ValueError(f"{piece!r} is no range")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= HOSTS_MAX:
            raise ValueError(f"{piece!r} is no range")
        for number in range(int(first), int(last) + 1):
            found += [f"{before}{number:0{len(first)}d}{end}" for end in ends]
    return found
