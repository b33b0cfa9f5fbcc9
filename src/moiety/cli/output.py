"""Reads and prints values: sizes, times, tables, JSON and errors."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from moiety.model.errors import (
    ConfigError,
    InvalidDuration,
    InvalidSize,
    InvalidValue,
    YamlMissing,
)
from moiety.model.format import plain
from moiety.model.share import Mode, Priority, parse_mode, parse_priority
from moiety.model.units import (
    AllocationLimit,
    format_bytes,
    format_duration,
    format_fraction,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_memory_limit,
)

FOLD_MIN = 20
"""The fewest columns that a folded text needs; with fewer it is not folded."""
RIGHT = frozenset("0123456789")


class Read(click.ParamType[Any]):
    """A value that a parser of moiety reads; its errors name the option."""

    def read(self, text: str) -> Any:
        """What the text means; raises InvalidValue."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The result of `read` for a text; other values have been read already."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except InvalidValue as error:
            if param is not None and param.param_type_name == "option":
                error.what = f"{max(param.opts, key=len)}: {error.what}"
            raise


class Size(Read):
    """An amount of memory, such as 20GiB."""

    name = "size"

    def read(self, text: str) -> int:
        """Bytes; more than none."""
        found = parse_bytes(text)
        if found <= 0:
            raise InvalidSize(text, "is no memory at all")
        return found


class Limit(Read):
    """The most memory that a program may allocate, such as 20GiB or 150%."""

    name = "size"

    def read(self, text: str) -> AllocationLimit:
        """Bytes, or a part of a GPU's memory; more than none."""
        return parse_memory_limit(text)


class Duration(Read):
    """A length of time, such as 30s."""

    name = "time"

    def read(self, text: str) -> float:
        """Seconds; more than none."""
        found = parse_duration(text)
        if found <= 0:
            raise InvalidDuration(text, "is no time at all")
        return found


class Fraction(Read):
    """A part of a GPU's time, such as 0.3 or 30%."""

    name = "part"

    def read(self, text: str) -> float:
        """Above 0, at most 1."""
        return parse_fraction(text)


class PriorityName(Read):
    """A class by its name."""

    name = "class"

    def read(self, text: str) -> Priority:
        """One that exists."""
        return parse_priority(text)


class ModeName(Read):
    """A mode by its name."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """One that exists; a Mode is a text, too."""
        return value if isinstance(value, Mode) else super().convert(value, param, ctx)

    def read(self, text: str) -> Mode:
        """One that exists."""
        return parse_mode(text)


class Number(click.FloatRange):
    """A number in a range; unlike click's class, it refuses infinity and NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The finite number that `float` reads; fails for infinity and NaN."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people or for programs.",
)
STRUCTURED = ("json", "yaml")
"""The outputs that one document holds."""
yaml_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", *STRUCTURED]),
    default="table",
    show_default=True,
    help="For people or for programs.",
)
wide_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *STRUCTURED]),
    default="table",
    show_default=True,
    help="For people, with more columns, or for programs.",
)


def emit(value: Any, output: str) -> None:
    """One document in `output`, which is one of STRUCTURED; raises YamlMissing."""
    click.echo(document(value, output), nl=False)


def document(value: Any, output: str) -> str:
    """The text of `emit`: in YAML it says what it says in JSON; raises YamlMissing."""
    import msgspec

    text = _json(value)
    if output == "json":
        return msgspec.json.format(text, indent=2).decode() + "\n"
    try:
        import yaml
    except ImportError:
        raise YamlMissing from None
    read = msgspec.json.decode(text)
    found: str = yaml.safe_dump(read, sort_keys=False, allow_unicode=True, explicit_start=True)
    return found


def emit_json(value: Any) -> None:
    """One JSON document, indented."""
    emit(value, "json")


def _json(value: Any) -> bytes:
    import msgspec

    from moiety.model.format import encodable

    plain = builtins(value)
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:  # the name of a file, say
        return msgspec.json.encode(encodable(plain))


def builtins(value: Any) -> Any:
    """An answer of an agent, as dicts and lists."""
    import msgspec

    from moiety.agent.control.protocol import ANSWER_TAG

    found = msgspec.to_builtins(value)
    if isinstance(found, dict):
        found.pop(ANSWER_TAG, None)
    return found


def terminal_width() -> int | None:
    """The columns of the terminal; None if the output does not go to a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    import shutil  # which loads all ways to compress

    return shutil.get_terminal_size().columns


def fold(text: str, indent: int = 0) -> str:
    """A line, folded if the terminal is too narrow; all lines but the first are indented."""
    width = terminal_width()
    if width is None or width <= indent + FOLD_MIN:
        return text
    import textwrap

    return textwrap.fill(
        text,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], less: Sequence[str] = ()) -> str:
    """Aligned columns, two blanks apart; columns of numbers stand right. No rows: the titles.

    On a terminal that is too narrow columns are left out, in the order of `less`.
    """
    rows = [[plain(cell) for cell in row] for row in rows]
    columns = list(zip(*([list(titles)] + [list(row) for row in rows]), strict=True))
    columns = _fitting(columns, terminal_width(), less)
    titles, *rows = zip(*columns, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    numeric = [bool(rows) and all(is_number(c) for c in column[1:]) for column in columns]
    for row in [titles, *rows]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    if colour_wanted() and lines:
        lines[0] = click.style(lines[0], bold=True)
    return "\n".join(lines)


def _fitting(
    columns: list[tuple[str, ...]], width: int | None, less: Sequence[str]
) -> list[tuple[str, ...]]:
    """The columns without those of `less` that do not fit; each begins with its title."""
    left = list(columns)
    for title in less:
        taken = sum(max(map(len, column)) + 2 for column in left) - 2
        if width is None or taken <= width:
            break
        left = [column for column in left if column[0] != title]
    return left


def is_number(cell: str) -> bool:
    """Whether a cell holds an amount, or nothing."""
    return cell in ("", "-") or cell[0] in RIGHT


def colour_wanted() -> bool:
    """Whether to colour: by --color, MOIETY_COLOR, NO_COLOR or a file, else on a terminal."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.color is not None:
        return ctx.color
    when = _when()
    wanted = when == "always" or (when == "auto" and sys.stdout is not None and sys.stdout.isatty())
    if ctx is not None:
        ctx.color = wanted  # else click strips colours from output that goes to no terminal
    return wanted


def _when() -> str:
    from moiety.config.load import Source, load
    from moiety.config.table import of_section

    try:
        found = load().value(next(s for s in of_section("cli") if s.key == "color"))
    except ConfigError:
        return "auto"  # commands that need the file report its error
    if found.source is not Source.ENVIRONMENT and os.environ.get("NO_COLOR"):
        return "never"
    return str(found.value)


def count(number: int, noun: str) -> str:
    """1 tenant, 2 tenants."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size(amount: int | None) -> str:
    """Bytes for a table."""
    return "-" if amount is None else format_bytes(amount)


def part(amount: float | None) -> str:
    """A part of a GPU for a table; tenths of a percent do not matter there."""
    return "-" if amount is None else format_fraction(round(amount, 2))


def seconds(amount: float | None) -> str:
    """A duration for a table; what is below a millisecond does not matter there."""
    if amount is None:
        return "-"
    rounded = round(amount, 3 if amount < 1 else 1)
    return format_duration(rounded) if rounded else "0 s"
