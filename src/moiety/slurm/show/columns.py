"""Lays out columns as Slurm's programs do: widths, sides, what is cut off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from moiety.slurm.show.options import plain

T = TypeVar("T")
LONG_WIDTH: Final = 20
SHORT: Final = re.compile(r"(\.?)(\d*)(.?)", re.DOTALL)
NAMED: Final = re.compile(r"([A-Za-z0-9_/-]+)(?::(\.?)(\d*)(.*))?")
PERCENT: Final = re.compile(r"([A-Za-z0-9_/]+)(?:%(-?\d+))?")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A title, and how the value of a job is found."""

    title: str
    value: Callable[[T], str]
    width: int = 0
    """The usual width in `sacct`; a negative one is on the left side."""


@dataclass(frozen=True, slots=True)
class Cell(Generic[T]):
    """A column as it is laid out."""

    column: Column[T]
    width: int | None = None
    """None: as long as it is."""
    on_right: bool = False
    before: str = ""
    after: str = ""
    plus: bool = False
    """Whether what is cut off shows as `+`."""

    def text(self, value: str) -> str:
        """A value in its place."""
        value = plain(value)
        if self.width is not None:
            if self.plus and len(value) > self.width:
                value = value[: self.width - 1] + "+"
            value = value[: self.width]
            value = value.rjust(self.width) if self.on_right else value.ljust(self.width)
        return f"{self.before}{value}{self.after}"


def short_cells(
    text: str, table: Mapping[str, Column[T]], wrong: Callable[[str], None]
) -> list[Cell[T]]:
    """The cells of `-o '%.18i %t|%N'`; `wrong` is told of each letter that is no column.

    As in Slurm, such a letter and all other text stand in each line, and some `%` are one.
    """
    if text.strip().lower() == "%all":
        columns = list(table.values())
        return [Cell(each, after="|" if each is not columns[-1] else "") for each in columns]
    before, *parts = re.split("%+", text)
    found: list[Cell[T]] = [_literal(before)] if before else []
    for part in filter(None, parts):
        match = SHORT.match(part)
        assert match is not None, "each of its parts may be empty"
        side, width, letter = match.groups()
        if letter in table:
            size = int(width[:4] or 0) or None
            found.append(Cell(table[letter], size, bool(side), after=part[match.end() :]))
        else:
            wrong(letter)
            found.append(_literal(f"%{part}"))
    return found


def _literal(text: str) -> Cell[T]:
    """A text that stands in each line, titles included, as it is."""
    return Cell(Column("", lambda _: ""), before=text)


def long_cells(
    text: str, table: Mapping[str, Column[T]], wrong: Callable[[str], None]
) -> list[Cell[T]]:
    """The cells of `-O jobid:10,name:.20|,state`."""
    found: list[Cell[T]] = []
    for part in filter(None, text.split(",")):
        match = NAMED.fullmatch(part.strip())
        name = key_of(match[1]) if match else ""
        if match is None or name not in table:
            wrong(part.strip())
            continue
        width = LONG_WIDTH if match[3] is None else int(match[3][:4] or 0) or None
        found.append(Cell(table[name], width, bool(match[2]), after=match[4] or ""))
    return found


def percent_cells(
    text: str, table: Mapping[str, Column[T]], delimiter: str | None, wrong: Callable[[str], None]
) -> list[Cell[T]]:
    """The cells of `--format=JobID%20,State`; with a delimiter nothing is laid out."""
    found: list[Cell[T]] = []
    for part in text.split(","):
        match = PERCENT.fullmatch(part.strip())
        column = table.get(key_of(match[1])) if match else None
        if match is None or column is None:
            if part.strip():
                wrong(part.strip())
            continue
        if delimiter is not None:
            found.append(Cell(column, after=delimiter))
            continue
        width = int(match[2]) if match[2] else column.width
        found.append(Cell(column, abs(width), width > 0, after=" ", plus=True))
    return found


def key_of(name: str) -> str:
    """A name of a column as the tables have it."""
    return name.lower().replace("-", "").replace("_", "")


def lines(cells: Sequence[Cell[T]], items: Iterable[T], *, header: bool = True) -> Iterator[str]:
    """The lines of a list, with titles first."""
    if header:
        yield "".join(cell.text(cell.column.title) for cell in cells)
    for item in items:
        yield "".join(cell.text(cell.column.value(item)) for cell in cells)
