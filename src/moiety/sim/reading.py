"""Rows of a CSV or JSONL file, plain or gzip, each with the line where it stands."""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from moiety.model.errors import MoietyError, TraceInvalid, TraceMissing

T = TypeVar("T")

LARGEST = 1e15
"""The largest number: sums over a whole cluster still fit into 64 bits."""
COLUMNS_HINT = "the columns in docs/howto-simulate.md and docs/traces-of-pools.md"
TOLD_MAX = 5
"""Bad lines that are described; all are counted."""


@dataclass
class Complaints:
    """Handles lines that make no sense: refuses the trace, or counts them and goes on."""

    is_lenient: bool = False
    count: int = 0
    left_out: int = 0
    """Counted lines that are not in the trace; a job that is only too large is in it."""
    told: list[str] = field(default_factory=list)

    def about(self, path: Path, line: int, problem: str, *, stays: bool = False) -> None:
        """Raises TraceInvalid, or counts the line if the complaints are lenient."""
        error = TraceInvalid(path.name, line, problem)
        if not self.is_lenient:
            raise error
        self.count += 1
        self.left_out += not stays
        if len(self.told) < TOLD_MAX:
            self.told.append(error.what)


class TableRow:
    """One line of a table: values by column, as numbers where numbers are wanted.

    Raises ValueError, with what is wrong, for a value that cannot be read.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, column: str, default: str | None = None) -> str:
        """The value as it stands there, without blanks around it."""
        value = self._values.get(column)
        if value is None or value == "":
            if default is None:
                raise ValueError(f"it has no {column}")
            return default
        return str(value).strip()

    def whole(self, column: str, default: int | None = None) -> int:
        """A whole number that is not negative."""
        number = self.number(column, None if default is None else float(default))
        if number != int(number):
            raise ValueError(f"{column} is not a whole number: {number:g}")
        return int(number)

    def number(self, column: str, default: float | None = None) -> float:
        """A number that is not negative."""
        text = self.text(column, "" if default is not None else None)
        if not text and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{column} is not a number: {text!r}") from None
        if not math.isfinite(number):
            raise ValueError(f"{column} is not a number: {text!r}")
        if number < 0:
            raise ValueError(f"{column} is negative: {number:g}")
        if number > LARGEST:
            raise ValueError(f"{column} is larger than anything: {number:g}")
        return number

    def names(self, column: str) -> frozenset[str]:
        """Names with | between them."""
        return frozenset(name.strip() for name in self.text(column, "").split("|") if name.strip())


def read_table(
    path: Path, columns: Sequence[str], make: Callable[[TableRow], T], complaints: Complaints
) -> list[tuple[int, T]]:
    """The result of `make` for each line, with the number of the line.

    Raises TraceMissing if the file cannot be read, TraceInvalid if a column is missing or, unless
    the complaints are lenient, if a line makes no sense (`make` raises ValueError).
    """
    found = []
    for line, values in _rows(path, columns, complaints):
        try:
            found.append((line, make(TableRow(values))))
        except ValueError as error:
            problem = error.what if isinstance(error, MoietyError) else str(error)
            complaints.about(path, line, problem)
    return found


def check_file(path: Path, what: str) -> None:
    """Raises TraceMissing if there is no such file, with what it should have been."""
    if not path.is_file():
        problem = "it is no file" if path.exists() else "it does not exist"
        raise TraceMissing(str(path), problem, what, COLUMNS_HINT)


def columns_of(path: Path) -> set[str]:
    """The columns of a table: of its first line, or of its first object.

    Raises TraceMissing if the file cannot be read, TraceInvalid if it is no table or empty.
    """
    lines = read_lines(path)
    if not lines:
        raise TraceInvalid(path.name, 1, "it has no columns, because it is empty", COLUMNS_HINT)
    line, text = lines[0]
    if ".jsonl" in path.suffixes:
        values = _object(text)
        if values is None:
            raise TraceInvalid(path.name, line, "it is not an object of JSON", COLUMNS_HINT)
        return set(values)
    try:
        return {column.strip() for column in next(csv.reader([text]), [])}
    except csv.Error as error:
        raise TraceInvalid(path.name, line, str(error), COLUMNS_HINT) from None


def _object(text: str) -> dict[str, Any] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def parse_index(text: str, below: int) -> int | None:
    """A whole number from 0 to `below` - 1; None: it is none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(below)):
        return None
    return int(text) if int(text) < below else None


def read_lines(path: Path) -> list[tuple[int, str]]:
    """The lines that are not empty, with their numbers."""
    lines = enumerate(_text(path).splitlines(), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def _rows(
    path: Path, columns: Sequence[str], complaints: Complaints
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if ".jsonl" in path.suffixes:
        for line, text in read_lines(path):
            values = _object(text)
            if values is None:
                complaints.about(path, line, "it is not an object of JSON")
                continue
            missing = [column for column in columns if column not in values]
            if missing:
                complaints.about(path, line, f"it has no {missing[0]}")
                continue
            yield (
                line,
                {
                    key: "|".join(map(str, value)) if isinstance(value, list) else value
                    for key, value in values.items()
                },
            )
        return
    reader = csv.DictReader(_text(path).splitlines())
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise TraceInvalid(
                path.name,
                1,
                f"there is no column {missing[0]}",
                f"a first line that names at least {', '.join(columns)}",
            )
        for values in reader:
            if None in values:
                complaints.about(path, reader.line_num, "it has more values than columns")
                continue
            yield reader.line_num, values
    except csv.Error as error:
        raise TraceInvalid(path.name, reader.line_num, str(error)) from None


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise TraceMissing(str(path), error.strerror or str(error)) from None
    except (EOFError, zlib.error):
        raise TraceInvalid(path.name, 0, "its compressed data is damaged") from None
    except UnicodeDecodeError as error:
        raise TraceInvalid(path.name, 0, f"byte {error.start} is no text in UTF-8") from None
