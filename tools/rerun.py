"""Decides which failed tests `.ci/run` runs once more, and writes down which it ran twice.

    rerun.py allow CACHE RECORD
    rerun.py report RECORD

`allow` reads the failed tests from CACHE, the cache directory of a run of pytest, and adds them to
RECORD, a file that all suites of one run of `.ci/run` share. It ends with 1 where they may not run
again: there are too many, one of them is no single test, or one ran twice in an earlier run.

`report` prints the names in RECORD, whose tests passed the second time, and adds each to
tests/quarantine.toml. The entry does not say what was found, and `make check` refuses it until it
does.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools import quarantine

MOST: Final = 2
"""Tests that one run of `.ci/run` may run again, all suites together."""
ENTRY: Final = """
[[rerun]]
name = "{name}"
date = {date}
found = ""
"""


def failed(cache: Path) -> list[str]:
    """The ids of the tests that failed, as pytest remembers them; empty if it remembers none."""
    try:
        return list(json.loads((cache / "v" / "cache" / "lastfailed").read_text()))
    except FileNotFoundError:
        return []


def recorded(record: Path) -> list[str]:
    """The ids that were allowed before in this run."""
    return record.read_text().splitlines() if record.exists() else []


def refusal(ids: list[str], before: list[str], known: set[str]) -> str | None:
    """Why these tests may not run again, beside those `before` and the names `known` of old."""
    if not ids:
        return "no test is known to have failed: something else went wrong"
    if files := [each for each in ids if "::" not in each]:
        return f"pytest could not read {files[0]}, which another run does not change"
    if again := [each for each in ids if quarantine.name_of(each) in known]:
        return f"{again[0]} ran twice before (tests/quarantine.toml): it has to be mended"
    if len(before) + len(ids) > MOST:
        return f"{len(before) + len(ids)} tests failed in this run; at most {MOST} may run again"
    return None


def allow(cache: Path, record: Path) -> int:
    """Print and record the tests that may run again; the exit code."""
    ids, before = failed(cache), recorded(record)
    for each in ids:
        print(f"failed: {each}")
    why_not = refusal(ids, before, {str(each["name"]) for each in quarantine.load()["rerun"]})
    if why_not:
        print(f"not run again: {why_not}")
        return 1
    record.write_text("".join(f"{each}\n" for each in before + ids))
    return 0


def report(record: Path, path: Path = quarantine.LIST) -> int:
    """Print what ran twice, and add it to the list; the exit code is always 0."""
    names = list(dict.fromkeys(quarantine.name_of(each) for each in recorded(record)))
    if names:
        today = dt.datetime.now(tz=dt.UTC).date()
        entries = "".join(ENTRY.format(name=name, date=today) for name in names)
        print("These tests failed once in this run. Find out why, write it into `found` of their")
        try:
            with path.open("a") as written:
                written.write(entries)
            print("entries in tests/quarantine.toml, which has them now, and commit that.")
        except OSError:  # the checkout is mounted to be read only
            print(f"entries for tests/quarantine.toml, which cannot be written here:\n{entries}")
    for name in names:
        print(f"ran twice: {name}")
    return 0


def main(arguments: list[str]) -> int:
    """The exit code of one command."""
    match arguments:
        case ["allow", cache, record]:
            return allow(Path(cache), Path(record))
        case ["report", record]:
            return report(Path(record))
    print(__doc__)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
