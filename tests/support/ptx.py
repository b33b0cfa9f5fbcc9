"""A small interpreter for PTX: the threads of one block, over memory that a test gives.

Each instruction runs for all threads that stand at it. A barrier that not all of them reach is an
error. It knows the instructions of the shim's kernels, and refuses any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]
LOW: Final = np.uint64(0xFFFFFFFF)
HALF: Final = np.uint64(32)
SHARED: Final = 1 << 60
"""Where shared memory lies among the addresses of the interpreter."""


class NotKnown(Exception):
    """The interpreter lacks this instruction."""


@dataclass
class Memory:
    """Ranges of bytes, by their first address."""

    ranges: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = field(default_factory=dict)

    def words(self, address: int, size: int) -> tuple[np.ndarray[Any, Any], int]:
        """The range that an address is in, as words of a size, and the word's index there."""
        for base, data in self.ranges.items():
            if base <= address < base + data.size:
                assert address % size == 0, f"an access of {size} bytes at {address:#x}"
                return data.view(f"<u{size}"), (address - base) // size
        raise IndexError(f"no memory at {address:#x}")

    def load(self, addresses: Words, size: int) -> Words:
        """The words at the addresses, all in the range of the first."""
        data, first = self.words(int(addresses[0]), size)
        indices = (addresses.astype(np.int64) - int(addresses[0])) // size + first
        assert indices.min() >= 0
        assert indices.max() < data.size
        return data[indices].astype(np.uint64)

    def store(self, addresses: Words, values: Words, size: int) -> None:
        """Write one word for each thread, in their order."""
        for address, value in zip(addresses, values, strict=True):
            data, index = self.words(int(address), size)
            data[index] = value & np.uint64((1 << 8 * size) - 1)


def high(a: Words, b: Words) -> Words:
    """The upper 64 bits of a product."""
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    middle = a1 * b0 + (a0 * b0 >> HALF)
    other = a0 * b1 + (middle & LOW)
    product: Words = a1 * b1 + (middle >> HALF) + (other >> HALF)
    return product


PLAIN: Final[dict[str, Callable[..., Words]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "cvta": lambda a: a,
    "mul.wide": lambda a, b: a * b,
    "mul.lo": lambda a, b: a * b,
    "mul.hi": high,
    "mad.lo": lambda a, b, c: a * b + c,
}
COMPARED: Final[dict[str, Callable[[Words, Words], Any]]] = {
    "ne": lambda a, b: a != b,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
}


class Block:
    """One block of a grid, running one kernel of a module."""

    def __init__(self, text: str, kernel: str, memory: Memory, special: Mapping[str, int]) -> None:
        """Begin before the first instruction; `special` has %ctaid.x and the like."""
        body = re.search(rf"\.entry {kernel}\((.*?)\)(.*?)\n\}}", text, re.DOTALL)
        assert body, f"the module has no {kernel}"
        threads = int(re.search(r"\.maxntid (\d+)", body[2])[1])  # type: ignore[index]
        lines = [line.strip().rstrip(";") for line in body[2].split("{\n", 1)[1].splitlines()]
        declared = [line for line in lines if line.startswith(".shared")]
        self.lines = [line for line in lines if line and not line.startswith(".")]
        self.labels = {line[:-1]: i for i, line in enumerate(self.lines) if line.endswith(":")}
        self.threads, self.memory = threads, memory
        self.special = {name: np.full(threads, value, np.uint64) for name, value in special.items()}
        self.special["%tid.x"] = np.arange(threads, dtype=np.uint64)
        self.state: dict[str, Words] = {}
        self.carry = np.zeros(threads, np.uint64)
        self.at = np.zeros(threads, np.int64)
        self.barriers = 0
        where = SHARED
        for line in declared:
            name, size = re.search(r"(\w+)\[(\d+)\]", line).groups()  # type: ignore[union-attr]
            self.special[name] = np.full(threads, where, np.uint64)
            memory.ranges[where] = np.zeros(int(size), np.uint8)
            where += int(size)

    def run(self, parameters: Mapping[str, bytes]) -> None:
        """Run all threads to the end."""
        with np.errstate(over="ignore"):
            while (self.at >= 0).any():
                here = int(self.at[self.at >= 0].min())
                self._step(self.lines[here], self.at == here, parameters)

    def _value(self, word: str) -> Words:
        if word in self.special:
            return self.special[word]
        if word.startswith("%"):
            return self.state[word]
        return np.full(self.threads, int(word, 0), np.uint64)

    def _set(self, word: str, value: Any, mask: Any, kind: str) -> None:
        if kind.endswith("32"):
            value = value & LOW
        old = self.state.get(word, np.zeros(self.threads, np.uint64))
        self.state[word] = np.where(mask, value, old)

    def _address(self, word: str) -> Words:
        base, _, offset = word.strip("[]").partition("+")
        return self._value(base) + np.uint64(int(offset or 0))

    def _step(self, line: str, here: Any, parameters: Mapping[str, bytes]) -> None:
        mask = here
        self.at[here] += 1
        if line.endswith(":"):
            return
        if guarded := re.match(r"@(!?)(%\w+) (.*)", line):
            holds = self.state[guarded[2]].astype(bool)
            mask = here & (~holds if guarded[1] else holds)
            line = guarded[3]
        operation, _, rest = line.partition(" ")
        kind, *parts = operation.split(".")
        words = [w.strip() for w in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)]
        if kind == "bra":
            self.at[mask] = self.labels[rest]
        elif kind == "ret":
            self.at[mask] = -1
        elif kind == "bar":
            assert (here == (here | (self.at >= 0))).all(), "a barrier that not all threads reach"
            self.barriers += 1
            if parts[0] == "red":
                self._set(words[0], self.state[words[2]].any(), mask, "pred")
        elif kind in ("ld", "st"):
            self._move(kind, parts, words, mask, parameters)
        elif kind == "setp":
            self._set(words[0], COMPARED[parts[0]](*map(self._value, words[1:])), mask, "pred")
        elif "cc" in parts or kind == "madc":
            self._long(kind, parts, words, mask)
        else:
            work = PLAIN.get(".".join([kind, *parts[:-1]])) or PLAIN.get(kind)
            if work is None or (kind in ("mul", "mad") and parts[0] not in ("lo", "hi", "wide")):
                raise NotKnown(line)
            width = "64" if "wide" in parts else parts[1 if kind == "cvt" else -1]
            width = parts[0] if kind == "cvt" else width
            self._set(words[0], work(*map(self._value, words[1:])), mask, width)

    def _long(self, kind: str, parts: list[str], words: list[str], mask: Any) -> None:
        """mad.lo.cc and madc.hi of 64 bits: together, a product added to 128 bits."""
        a, b, c = map(self._value, words[1:])
        if kind == "mad" and parts == ["lo", "cc", "u64"]:
            total = a * b + c
            self.carry = np.where(mask, (total < c).astype(np.uint64), self.carry)
        elif kind == "madc" and parts == ["hi", "u64"]:
            total = high(a, b) + c + self.carry
        else:
            raise NotKnown(".".join([kind, *parts]))
        self._set(words[0], total, mask, "u64")

    def _move(
        self,
        kind: str,
        parts: list[str],
        words: list[str],
        mask: Any,
        parameters: Mapping[str, bytes],
    ) -> None:
        size = int(parts[-1][1:]) // 8
        if parts[0] == "param":
            name, _, offset = words[1].strip("[]").partition("+")
            data = parameters[name][int(offset or 0) :][:size]
            self._set(words[0], np.uint64(int.from_bytes(data, "little")), mask, parts[-1])
            return
        place, given = (words[1], words[0]) if kind == "ld" else (words[0], words[1])
        registers = [w.strip() for w in given.strip("{}").split(",")]
        address = self._address(place)
        assert (address[mask] % np.uint64(size * len(registers)) == 0).all(), "not aligned"
        for i, register in enumerate(registers):
            at = address + np.uint64(i * size)
            if kind == "st":
                self.memory.store(at[mask], self.state[register][mask], size)
            else:
                found = np.zeros(self.threads, np.uint64)
                found[mask] = self.memory.load(at[mask], size)
                self._set(register, found, mask, parts[-1])
