"""Checks tests/quarantine.toml, the list of tests that the gate leaves out or had to run twice.

The file has two tables. `[[quarantined]]` is a test that depends on time: `make test` leaves it
out and `make soak` runs it; it has `name`, `reason` and `since`. `[[rerun]]` is a test that failed
in `.ci/run` and passed when it ran by itself; it has `name`, `date` and `found`, which is what the
failure turned out to be. A name is a path and a test, without parameters.
"""

from __future__ import annotations

import ast
import datetime as dt
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = ROOT / "tests" / "quarantine.toml"
FIELDS: Final = {"quarantined": ("since", "reason"), "rerun": ("date", "found")}
"""The table, with its field for a date and its field for a sentence."""
LEAST: Final = 20
"""Characters of a sentence: a word is no reason."""


def load(path: Path = LIST) -> dict[str, list[dict[str, Any]]]:
    """The tables of the list by name; those that the file lacks are empty."""
    found = tomllib.loads(path.read_text())
    return {table: [] for table in FIELDS} | found


def name_of(node_id: str) -> str:
    """The name in the list of a test that pytest calls by this id: without its parameters."""
    return node_id.partition("[")[0]


def is_test(name: str) -> bool:
    """Whether the file that the name gives defines that test, in a class or outside of one."""
    path, _, inside = name.partition("::")
    file = ROOT / path
    if not inside or not path.startswith("tests/") or not file.is_file():
        return False
    body: list[ast.stmt] = ast.parse(file.read_text()).body
    *classes, test = inside.split("::")
    for wanted in classes:
        body = [
            statement
            for each in body
            if isinstance(each, ast.ClassDef) and each.name == wanted
            for statement in each.body
        ]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return test.startswith("test_") and any(
        isinstance(each, kinds) and each.name == test for each in body
    )


def complaints(tables: dict[str, list[dict[str, Any]]], today: dt.date) -> list[str]:
    """What is wrong with the list, a line each."""
    said = [f"[[{table}]] is no table of this list" for table in tables.keys() - FIELDS.keys()]
    for table, (date, sentence) in FIELDS.items():
        for entry in tables[table]:
            name = str(entry.get("name", ""))
            where = f"[[{table}]] {name or '(no name)'}"
            if entry.keys() != {"name", date, sentence}:
                said.append(f"{where}: has {', '.join(entry)}; wanted: name, {date}, {sentence}")
                continue
            if not is_test(name):
                said.append(f"{where}: there is no such test (write PATH::TEST, no parameters)")
            if type(entry[date]) is not dt.date or entry[date] > today:
                said.append(f"{where}: {date} is no date, or one that is still to come")
            if len(str(entry[sentence]).strip()) < LEAST:
                said.append(f"{where}: {sentence} is empty or too short")
        counts = Counter(str(entry.get("name")) for entry in tables[table])
        said += [f"[[{table}]] {name}: is there {n} times" for name, n in counts.items() if n > 1]
    return said


def main() -> int:
    """Print what is wrong; the exit code."""
    said = complaints(load(), dt.datetime.now(tz=dt.UTC).date())
    print("\n".join(f"{LIST.relative_to(ROOT)}: {line}" for line in said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
