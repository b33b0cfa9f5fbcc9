"""Inserts what was submitted: one row, or one for each task of an array."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from moiety.pool.model.arrays import parse_array
from moiety.pool.model.records import Submission

LOG: Final = "moiety-%j.log"
ARRAY_LOG: Final = "moiety-%A_%a.log"
WIDTH_MAX: Final = 10
_PATTERN: Final = re.compile(r"%%|%([0-9]{0,2})([jxAa])")


def insert(connection: sqlite3.Connection, asked: Submission, values: Mapping[str, Any]) -> int:
    """Insert the row of a submission, or those of its array; returns the first number.

    That is the number of the array, too. Tasks follow each other in number and index.
    """
    columns = [*values, "stdout", "stderr", "array_id", "array_index", "array_at_once"]
    marks = ", ".join("?" * len(columns))
    named = ", ".join(columns)
    same = tuple(values.values())
    number = _next_number(connection)
    array = parse_array(asked.array) if asked.array else None
    made = []
    for at, index in enumerate(array.indices if array else (None,)):
        logs = _logs(asked, str(values["name"]), number + at, number, index)
        of_array = (None, None, 0) if array is None else (number, index, array.at_once)
        made.append((number + at, *same, *logs, *of_array))
    connection.executemany(f"INSERT INTO workload(id, {named}) VALUES(?, {marks})", made)
    return number


def _next_number(connection: sqlite3.Connection) -> int:
    """No number is given twice, also if the row is gone."""
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'workload'").fetchone()
    return int(found[0]) + 1 if found else 1


def _logs(
    asked: Submission, name: str, number: int, array_id: int, index: int | None
) -> tuple[str, str]:
    usual = LOG if index is None else ARRAY_LOG
    stdout = log_path(asked.stdout or usual, asked.cwd, name, number, array_id, index)
    if not asked.stderr:
        return stdout, stdout
    return stdout, log_path(asked.stderr, asked.cwd, name, number, array_id, index)


def log_path(
    pattern: str, cwd: str, name: str, number: int, array_id: int, index: int | None
) -> str:
    """The path of a log, absolute.

    %j is the number, %A that of the array, %a the index (0 without an array), %x the name, %% a
    per cent sign; `%4a` has at least four digits.
    """
    known = {"j": str(number), "A": str(array_id), "a": str(index or 0), "x": name}

    def replaced(match: re.Match[str]) -> str:
        width, letter = match.groups()
        if letter is None:
            return "%"
        return (
            known[letter] if letter == "x" else known[letter].zfill(min(int(width or 0), WIDTH_MAX))
        )

    path = _PATTERN.sub(replaced, pattern)
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"
