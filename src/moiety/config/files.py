"""The files that settings stand in: where they are, and on which line each setting is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from moiety.config.places import OVERRIDE, Kind, places
from moiety.model.errors import BadConfigFile

SIZE_MAX: Final = 1 << 20

_HEADER: Final = r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?"
_KEY: Final = r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"))*)\s*="""


class File(msgspec.Struct, frozen=True):
    """A file that was read: its tables as TOML has them."""

    path: Path
    kind: Kind
    tables: Mapping[str, Any]
    lines: Mapping[str, int]
    """The line of each table and key, by dotted name."""

    def where(self, name: str) -> str:
        """FILE:LINE of a dotted name, or of what it stands in; else FILE."""
        while name:
            if name in self.lines:
                return f"{self.path}:{self.lines[name]}"
            name = name.rpartition(".")[0]
        return str(self.path)


def read_all(environment: Mapping[str, str]) -> list[File]:
    """The files that exist; the first counts for most. Raises BadConfigFile."""
    found = (read(path, kind) for path, kind in places(environment))
    return [file for file in found if file is not None]


def read(path: Path, kind: Kind) -> File | None:
    """One file; None if it is not there. Raises BadConfigFile."""
    try:
        if kind is Kind.USER and not path.parent.is_dir():
            return None  # also where the home directory may not be looked into
        with open(path, "rb", opener=_at_once) as source:
            os.set_blocking(source.fileno(), True)
            raw = source.read(SIZE_MAX + 1)
    except FileNotFoundError as error:
        if kind is Kind.NAMED:
            raise BadConfigFile(str(path), "it is not there", f"what {OVERRIDE} says") from error
        return None
    except OSError as error:
        hint = f"chmod a+r {path}" if isinstance(error, PermissionError) else "ls -l " + str(path)
        raise BadConfigFile(str(path), error.strerror or str(error), hint) from None
    if len(raw) > SIZE_MAX:
        raise BadConfigFile(str(path), "it is too large for a file of settings")
    if not raw.strip():
        return File(path, kind, {}, {})
    import tomllib  # it takes 5 ms, and most machines have no file

    try:
        text = raw.decode()
        tables = tomllib.loads(text)
    except UnicodeDecodeError:
        raise BadConfigFile(str(path), "it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadConfigFile(str(path), f"it is not TOML: {error}") from None
    return File(path, kind, tables, _lines(text))


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for a writer: a pipe that has none is empty."""
    return os.open(path, flags | os.O_NONBLOCK)


def _lines(text: str) -> dict[str, int]:
    """Where tables and keys begin, as far as that can be seen without reading values."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.fullmatch(_HEADER, line):
            table = _plain(header[1])
            found.setdefault(table, number)
        elif key := re.match(_KEY, line):
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
