"""Reads native/wire/fields.txt: what a lie in each field could change, and what bounds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.wire_header import Header, Struct

NAME: Final = "fields.txt"
EVERY: Final = "*"
HEADER: Final = "mw_header"
SHARED: Final = ("mw_lease", "mw_counters", "mw_slot")
"""Structs that are no messages: memory that both sides see."""


@dataclass(frozen=True)
class Row:
    """One row: what it is about, and what it says."""

    about: tuple[str, ...]
    fields: tuple[str, ...]
    lie: str
    bound: str


def rows(folder: Path) -> list[Row]:
    """The rows of the file in a folder; raises ValueError for a line that is none."""
    found = []
    for line in (folder / NAME).read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split(" | ")]
        if len(cells) != 4 or not all(cells):
            raise ValueError(f"{NAME}: this is no row: {line}")
        about, fields = ([part.strip() for part in cell.split(",")] for cell in cells[:2])
        found.append(Row(tuple(about), tuple(fields), cells[2], cells[3]))
    return found


def _named(struct: Struct) -> Iterator[str]:
    return (f.name for f in struct.fields if f.kind != HEADER and f.name != "reserved")


def wanted(header: Header) -> set[tuple[str, str]]:
    """Every (message or struct, field) that needs a row."""
    found = {(EVERY, field) for field in _named(header.structs[HEADER])}
    for each in header.types:
        name = each.name.removeprefix("MW_")
        found |= {(name, field) for field in _named(header.structs[each.struct])}
    for shared in SHARED:
        found |= {(shared, field) for field in _named(header.structs[shared])}
    return found


def problems(header: Header, found: list[Row]) -> list[str]:
    """Fields without a row, rows without a field, and fields with several rows."""
    there = Counter((about, f) for row in found for about in row.about for f in row.fields)
    need = wanted(header)
    missing = [f"{about}.{field} has no row" for about, field in sorted(need - there.keys())]
    strange = [f"there is no {about}.{field}" for about, field in sorted(there.keys() - need)]
    double = [f"{a}.{f} has {count} rows" for (a, f), count in there.items() if count > 1]
    return missing + strange + double


def senders(header: Header, row: Row) -> str:
    """Who sends what a row is about."""
    arrows = {
        arrow
        for each in header.types
        if each.name.removeprefix("MW_") in row.about
        for arrow, _ in each.meanings
    }
    said = {a for arrow in arrows for a in arrow}
    if row.about == (EVERY,):
        return "both"
    if row.about[0] in SHARED:
        return "the agent writes it" if row.about[0] == "mw_lease" else "the client writes it"
    return "both" if len(said) > 1 else "client" if ">" in said else "agent"
