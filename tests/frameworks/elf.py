"""What a shared object asks of others: libraries by name, symbols by name and version."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Import", "Imports", "imports"]

SHT_DYNAMIC, SHT_DYNSYM, SHT_VERNEED, SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
DT_NULL, DT_NEEDED = 0, 1
STB_WEAK = 2


class Import(NamedTuple):
    """A symbol that somebody else must have."""

    name: str
    version: str | None
    library: str | None  # that has the version; where there is none, anybody may have the symbol
    weak: bool


class Imports(NamedTuple):
    """All that a shared object asks for."""

    libraries: list[str]
    symbols: list[Import]


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def _sections(data: mmap.mmap) -> list[_Section]:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    entry, count = struct.unpack_from("<HH", data, 0x3A)
    found = []
    for i in range(count):
        _, kind, _, _, start, size, link, _, _, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, offset + i * entry
        )
        found.append(_Section(kind, start, size, link))
    return found


def _text(data: mmap.mmap, at: int) -> str:
    return data[at : data.find(b"\0", at)].decode()


def _versions(data: mmap.mmap, need: _Section, names: int) -> Iterator[tuple[int, str, str]]:
    """Number, name and library of each version that is asked for."""
    at = need.offset
    while True:
        _, _, file, first, following = struct.unpack_from("<HHIII", data, at)
        inner = at + first
        while True:
            _, _, number, name, after = struct.unpack_from("<IHHII", data, inner)
            yield number, _text(data, names + name), _text(data, names + file)
            if not after:
                break
            inner += after
        if not following:
            return
        at += following


def imports(path: Path) -> Imports:
    """Reads a shared object for x86-64.

    Raises:
        ValueError: it is none.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not a 64-bit ELF file")
        sections = _sections(data)
        kinds = {section.kind: section for section in sections}
        dynamic, symbols = kinds[SHT_DYNAMIC], kinds[SHT_DYNSYM]
        names = sections[symbols.link].offset
        libraries = [
            _text(data, names + value)
            for tag, value in struct.iter_unpack(
                "<QQ", data[dynamic.offset : dynamic.offset + dynamic.size]
            )
            if tag == DT_NEEDED
        ]
        versions: dict[int, tuple[str, str]] = {}
        numbers: bytes = b""
        if SHT_VERNEED in kinds:
            need = kinds[SHT_VERNEED]
            versions = {n: (v, f) for n, v, f in _versions(data, need, names)}
            number_section = kinds[SHT_VERSYM]
            numbers = data[number_section.offset : number_section.offset + number_section.size]
        found = []
        table = data[symbols.offset : symbols.offset + symbols.size]
        for i, (name, info, _, where, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", table)):
            if where == 0 and name:
                number = struct.unpack_from("<H", numbers, 2 * i)[0] & 0x7FFF if numbers else 0
                version, library = versions.get(number, (None, None))
                found.append(
                    Import(_text(data, names + name), version, library, info >> 4 == STB_WEAK)
                )
        return Imports(libraries, found)
