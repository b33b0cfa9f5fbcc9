"""How things are said: sizes, times, tables, JSON and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from moiety.model.errors import ConfigError, InvalidDuration, InvalidSize
from moiety.model.format import plain
from moiety.model.share import Mode, Priority, parse_mode, parse_priority
from moiety.model.units import (
    format_bytes,
    format_duration,
    format_fraction,
    parse_bytes,
    parse_duration,
    parse_fraction,
)

RIGHT = frozenset("0123456789")


class Size(click.ParamType[int]):
    """An amount of memory, such as 20GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes; more than none."""
        if isinstance(value, int):
            return value
        found = parse_bytes(value)
        if found <= 0:
            raise InvalidSize(value, "is no memory at all")
        return found


class Duration(click.ParamType[float]):
    """A length of time, such as 30s."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds; more than none."""
        if isinstance(value, float | int):
            return float(value)
        found = parse_duration(value)
        if found <= 0:
            raise InvalidDuration(value, "is no time at all")
        return found


class Fraction(click.ParamType[float]):
    """A part of a GPU's time, such as 0.3 or 30%."""

    name = "part"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Above 0, at most 1."""
        return value if isinstance(value, float) else parse_fraction(value)


class PriorityName(click.ParamType[Priority]):
    """A class by its name."""

    name = "class"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Priority:
        """One that exists."""
        return value if isinstance(value, Priority) else parse_priority(value)


class ModeName(click.ParamType[Mode]):
    """A mode by its name."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mode:
        """One that exists."""
        return value if isinstance(value, Mode) else parse_mode(value)


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people or for programs.",
)


def emit_json(value: Any) -> None:
    """One JSON document, indented."""
    import msgspec

    from moiety.agent.requests import ANSWER_TAG

    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        plain.pop(ANSWER_TAG, None)
    click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two blanks apart; columns of numbers stand right. No rows: the titles."""
    rows = [[plain(cell) for cell in row] for row in rows]
    columns = list(zip(*([list(titles)] + [list(row) for row in rows]), strict=True))
    lines = []
    widths = [max(map(len, column)) for column in columns]
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


def is_number(cell: str) -> bool:
    """Whether a cell holds an amount, or nothing."""
    return cell in ("", "-") or cell[0] in RIGHT


def colour_wanted() -> bool:
    """As --color says, else MOIETY_COLOR, NO_COLOR, a file; only on a terminal if none does."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.color is not None:
        return ctx.color
    when = _when()
    wanted = when == "always" or (when == "auto" and sys.stdout is not None and sys.stdout.isatty())
    if ctx is not None:
        ctx.color = wanted  # else it would be taken out of what does not go to a terminal
    return wanted


def _when() -> str:
    from moiety.config.load import Source, load
    from moiety.config.table import of_section

    try:
        found = load().value(next(s for s in of_section("cli") if s.key == "color"))
    except ConfigError:
        return "auto"  # whoever needs the file says what is wrong with it
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
