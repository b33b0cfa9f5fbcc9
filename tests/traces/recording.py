"""What the recorder wrote: one line for each call, addresses and handles as they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Argument:
    """A value and what belongs to it: what the driver wrote, bytes that it read, or a name."""

    value: int
    out: int | None = None
    bytes: bytes | None = None
    text: str | None = None


@dataclass(frozen=True)
class Call:
    """One call of the driver."""

    after_us: int
    thread: int
    name: str
    result: int
    arguments: tuple[Argument, ...]


def argument(word: str) -> Argument:
    """`7f00>5`, `7f00=0a0b`, `7f00"cuInit`, `=0a0b` or `7f00`."""
    for mark in '">=':
        value, found, rest = word.partition(mark)
        if found:
            number = int(value or "0", 16)
            if mark == '"':
                return Argument(number, text=rest)
            if mark == ">":
                return Argument(number, out=int(rest, 16))
            return Argument(number, bytes=bytes.fromhex(rest))
    return Argument(int(word, 16))


def calls(path: Path, remarks: list[tuple[str, str]] | None = None) -> Iterator[Call]:
    """The calls of a recording; what its other lines say is added to `remarks`.

    Raises:
        ValueError: this is no recording.
    """
    data = path.read_bytes().rstrip(b"\0")
    if not data.startswith(b"# calls 1\n"):
        raise ValueError(f"{path} was not written by libmoiety-recorder.so")
    *lines, last = data.decode().split("\n")  # a last line without an end was cut off
    for line in lines:
        if line.startswith("# "):
            word, _, text = line[2:].partition(" ")
            if remarks is not None:
                remarks.append((word, text))
            continue
        after, thread, name, result, *words = line.split(" ")
        yield Call(
            int(after), int(thread), name, int(result), tuple(argument(word) for word in words)
        )
    del last
