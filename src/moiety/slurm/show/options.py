"""Reads the options of Slurm's programs, in the way and with the words of getopt_long."""

from __future__ import annotations

import getopt
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

CLUSTERS: Final = ("moiety", "all")


class UsageError(Exception):
    """A command line that makes no sense; `lines` are said, and the exit code is 1."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Given(dict[str, str]):
    """Options by their long names; flags have an empty value. The last one counts."""

    def has(self, *names: str) -> bool:
        """Whether one of these was given."""
        return any(name in self for name in names)

    def list(self, name: str) -> list[str]:
        """The parts of a value between commas; empty if it was not given."""
        return [part.strip() for part in self.get(name, "").split(",") if part.strip()]


def read(
    program: str, arguments: Sequence[str], table: Mapping[str, str], absent: Sequence[str] = ()
) -> tuple[Given, list[str]]:
    """Options and other words. `table` has long names, `=` after those with a value, and letters.

    `absent` are those that Slurm has and that would change the answer: they are refused. An option
    that is given again adds to a list of jobs, and else counts for more. Raises UsageError.
    """
    letters = "".join(
        letter + (":" if name.endswith("=") else "") for name, given in table.items()
        for letter in given
    )  # fmt: skip
    try:
        found, words = getopt.gnu_getopt(list(arguments), letters, list(table))
    except getopt.GetoptError as error:
        raise UsageError(f"{program}: {_words(error)}", _try(program)) from None
    by_letter = {
        f"-{letter}": name.rstrip("=") for name, given in table.items() for letter in given
    }
    given = Given()
    for option, value in found:
        name = by_letter.get(option, option[2:])
        is_more = name == "jobs" and name in given
        given[name] = f"{given[name]},{value}" if is_more else value
    for name in (name for name in absent if name in given):
        fail(program, f"--{name} cannot be used here")
    for cluster in given.list("clusters") + given.list("cluster"):
        if cluster not in CLUSTERS:
            fail(program, f"No cluster {plain(cluster)[:80]!r}: there is only {CLUSTERS[0]}")
    return given, words


def _try(program: str) -> str:
    return f'Try "{program} --help" for more information'


def _words(error: getopt.GetoptError) -> str:
    option, is_long = error.opt, len(error.opt) > 1
    dashed = f"'--{option}'" if is_long else f"'{option}'"
    if "requires argument" in error.msg:
        return f"option {dashed} requires an argument" if is_long else (
            f"option requires an argument -- {dashed}"
        )  # fmt: skip
    if "must not have" in error.msg:
        return f"option {dashed} doesn't allow an argument"
    if "not a unique prefix" in error.msg:
        return f"option {dashed} is ambiguous"
    return f"unrecognized option {dashed}" if is_long else f"invalid option -- {dashed}"


def fail(program: str, *lines: str) -> NoReturn:
    """Say what was wrong, and end with exit code 1."""
    raise UsageError(*(f"{program}: error: {line}" for line in lines))


def usage(error: UsageError) -> int:
    """Say what was wrong; the exit code."""
    for line in error.lines:
        print(line, file=sys.stderr)
    return 1


def plain(text: str) -> str:
    """A text without characters that a terminal obeys."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", text)
