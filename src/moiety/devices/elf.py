"""What an ELF file says about itself, read without loading it."""

from __future__ import annotations

import errno
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x7fELF"
MACHINES: Final = {
    3: "i386",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    21: "ppc64le",
    22: "s390x",
}
PT_INTERP: Final = 3
SHT_DYNAMIC: Final = 6
SHT_DYNSYM: Final = 11
DT_NEEDED: Final = 1
HEADERS_MAX: Final = 1 << 20
"""bytes of program headers that are read; a program has a dozen, of 56 bytes each"""

_HEADER = struct.Struct("<HHIQQQIHHHHHH")  # after e_ident
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Elf:
    """A program or library."""

    bits: int
    machine: str
    interpreter: str | None
    """the dynamic loader it asks for; None: statically linked, or a library"""


def open_regular(path: str | Path, flags: int = 0) -> int:
    """A descriptor to read a file with; a pipe or a device, which may block, raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_elf(path: str | Path) -> Elf | None:
    """What the file says; None if it is no ELF file. Raises OSError."""
    fd = open_regular(path)
    try:
        ident = os.pread(fd, 64, 0)
        if len(ident) < 20 or not ident.startswith(MAGIC):
            return None
        bits = {1: 32, 2: 64}.get(ident[4], 0)
        order: str = ">" if ident[5] == 2 else "<"
        (number,) = struct.unpack_from(f"{order}H", ident, 18)
        machine = MACHINES.get(number, f"machine {number}")
        if bits != 64 or order != "<" or len(ident) < 64:
            return Elf(bits, machine, None)
        return Elf(bits, machine, _interpreter(fd, ident))
    finally:
        os.close(fd)


def _interpreter(fd: int, ident: bytes) -> str | None:
    _, _, _, _, offset, _, _, _, size, count, *_ = _HEADER.unpack_from(ident, 16)
    table = os.pread(fd, min(size * count, HEADERS_MAX), offset)
    for at in range(0, len(table) - _PROGRAM.size + 1, max(size, _PROGRAM.size)):
        kind, _, where, _, _, length, *_ = _PROGRAM.unpack_from(table, at)
        if kind == PT_INTERP:
            return os.pread(fd, min(length, 4096), where).rstrip(b"\0").decode("utf-8", "replace")
    return None


def exported(path: str | Path) -> set[str]:
    """The names that a library defines for others; empty if that cannot be told."""
    symbols, strings = _section(path, SHT_DYNSYM)
    return _names(symbols, strings)


def needed(path: str | Path) -> list[str]:
    """The libraries that a program is linked with, in its order; empty if that cannot be told."""
    entries, strings = _section(path, SHT_DYNAMIC)
    entries = entries[: len(entries) // _DYNAMIC.size * _DYNAMIC.size]
    return [
        strings[value : strings.index(b"\0", value)].decode("utf-8", "replace")
        for tag, value in _DYNAMIC.iter_unpack(entries)
        if tag == DT_NEEDED and value < len(strings)
    ]


def _section(path: str | Path, wanted: int) -> tuple[bytes, bytes]:
    """The first section of a kind, and the names that it points into; both empty without one."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        ident = os.pread(fd, 64, 0)
        if len(ident) < 64 or not ident.startswith(MAGIC) or ident[4:6] != b"\x02\x01":
            return b"", b""
        _, _, _, _, _, offset, _, _, _, _, size, count, _ = _HEADER.unpack_from(ident, 16)
        table = os.pread(fd, size * count, offset)
        sections = [
            _SECTION.unpack_from(table, at)
            for at in range(0, len(table) - _SECTION.size + 1, max(size, _SECTION.size))
        ]
        for _, kind, _, _, where, length, link, *_ in sections:
            if kind == wanted and link < len(sections):
                strings = os.pread(fd, sections[link][5], sections[link][4])
                return os.pread(fd, length, where), strings
        return b"", b""
    finally:
        os.close(fd)


def _names(symbols: bytes, strings: bytes) -> set[str]:
    found = set()
    for name, _, _, section, _, _ in _SYMBOL.iter_unpack(symbols[: len(symbols) // 24 * 24]):
        if section and name:
            found.add(strings[name : strings.index(b"\0", name)].decode("utf-8", "replace"))
    return found
