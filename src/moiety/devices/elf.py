"""Reads the headers and symbols of ELF files without loading them."""

from __future__ import annotations

import errno
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
IDENT: Final = 64
"""Bytes of the header of a file."""
HEADERS_MAX: Final = 1 << 20
"""The most bytes of headers that are read; a program has some dozens, of 64 bytes at most."""
SYMBOLS_MOST: Final = 4 << 20
STRINGS_MOST: Final = 16 << 20
"""The most bytes of symbols and names; the largest libraries of CUDA have a tenth of that."""
NAME_MOST: Final = 4096
"""The longest name of a path or a library; a longer one counts as none."""
SYMBOL_MOST: Final = 256
"""The longest name of a function; names of C++ can be longer, names of C are not."""
LINKED_MOST: Final = 4096
"""The most dynamic entries that are read."""
OFFSET_MOST: Final = 1 << 62
"""Beyond the end of any file; sums with it still fit into 64 bits."""

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
    """Its dynamic loader; None: statically linked, or a library."""


def open_regular(path: str | Path) -> int:
    """A descriptor to read a file with; a pipe or a device, which may block, raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_elf(path: str | Path) -> Elf | None:
    """The headers of a file; None if it is no ELF file. Raises OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        return elf_of(file.fileno())


def elf_of(fd: int) -> Elf | None:
    """The headers of an open file; None if it is no ELF file. Raises OSError."""
    ident = os.pread(fd, IDENT, 0)
    if len(ident) < 20 or not ident.startswith(MAGIC):
        return None
    bits = {1: 32, 2: 64}.get(ident[4], 0)
    order: str = ">" if ident[5] == 2 else "<"
    (number,) = struct.unpack_from(f"{order}H", ident, 18)
    machine = MACHINES.get(number, f"machine {number}")
    if bits != 64 or order != "<" or len(ident) < IDENT:
        return Elf(bits, machine, None)
    return Elf(bits, machine, _interpreter(fd, ident))


def _interpreter(fd: int, ident: bytes) -> str | None:
    _, _, _, _, offset, _, _, _, size, count, *_ = _HEADER.unpack_from(ident, 16)
    for header in _rows(fd, offset, size, count, _PROGRAM):
        kind, _, where, _, _, length, *_ = header
        if kind == PT_INTERP:
            return _text(_piece(fd, where, length, NAME_MOST), 0)
    return None


def exported(path: str | Path) -> set[str]:
    """The names that a library exports; empty if they cannot be read."""
    symbols, strings = _section(path, SHT_DYNSYM)
    symbols = symbols[: len(symbols) // _SYMBOL.size * _SYMBOL.size]
    found = (
        _text(strings, name, SYMBOL_MOST)
        for name, _, _, section, _, _ in _SYMBOL.iter_unpack(symbols)
        if section and name
    )
    return {name for name in found if name}


def needed(path: str | Path) -> list[str]:
    """The libraries that a program is linked with, in order; empty if they cannot be read."""
    entries, strings = _section(path, SHT_DYNAMIC)
    entries = entries[: min(len(entries) // _DYNAMIC.size, LINKED_MOST) * _DYNAMIC.size]
    found = (
        _text(strings, value) for tag, value in _DYNAMIC.iter_unpack(entries) if tag == DT_NEEDED
    )
    return [name for name in found if name]


def _section(path: str | Path, wanted: int) -> tuple[bytes, bytes]:
    """The first section of a kind, and the names that it points into; both empty without one."""
    with os.fdopen(open_regular(path), "rb") as file:
        fd = file.fileno()
        ident = os.pread(fd, IDENT, 0)
        if len(ident) < IDENT or not ident.startswith(MAGIC) or ident[4:6] != b"\x02\x01":
            return b"", b""
        _, _, _, _, _, offset, _, _, _, _, size, count, _ = _HEADER.unpack_from(ident, 16)
        sections = _rows(fd, offset, size, count, _SECTION)
        for _, kind, _, _, where, length, link, *_ in sections:
            if kind == wanted and link < len(sections):
                names = _piece(fd, sections[link][4], sections[link][5], STRINGS_MOST)
                return _piece(fd, where, length, SYMBOLS_MOST), names
        return b"", b""


def _rows(fd: int, offset: int, size: int, count: int, form: struct.Struct) -> list[Any]:
    """The rows of a table, as far as the file has them; `size` is the file's size of a row."""
    table = _piece(fd, offset, size * count, HEADERS_MAX)
    step = max(size, form.size)
    return [form.unpack_from(table, at) for at in range(0, len(table) - form.size + 1, step)]


def _piece(fd: int, offset: int, length: int, most: int) -> bytes:
    """A piece of a file, at most `most` bytes; offset and length are untrusted."""
    if offset > OFFSET_MOST:
        return b""
    return os.pread(fd, min(length, most), offset)


def _text(strings: bytes, at: int, most: int = NAME_MOST) -> str:
    """The text at an offset; empty if it does not end within `most` bytes."""
    if not 0 <= at < len(strings):
        return ""
    end = strings.find(b"\0", at, at + most)
    if end < 0:
        end = len(strings) if len(strings) - at <= most else at
    return strings[at:end].decode("utf-8", "replace")
