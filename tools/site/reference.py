"""What the reference pages take from the code: commands, exit codes, the protocol."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from moiety.cli.examples import EXAMPLES
from moiety.cli.main import COMMANDS, module_of
from moiety.model.errors import MoietyError

HEADER: Final = Path(__file__).resolve().parents[2] / "native" / "wire" / "wire.h"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; bars in cells are escaped."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for row in rows:
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


# The commands


def commands() -> str:
    """Every command with its options, as `--help` has them."""
    parts: list[str] = []
    for name in COMMANDS:
        found = getattr(importlib.import_module(module_of(name)), name)
        parts += _command(found, ["moiety", name], 2)
    return "\n".join(parts)


def _command(command: click.Command, path: list[str], level: int) -> Iterator[str]:
    with click.Context(command, info_name=" ".join(path)) as context:
        yield "#" * level + f" {' '.join(path)}\n"
        yield f"```text\n{context.command.get_usage(context).removeprefix('Usage: ')}\n```\n"
        yield _markdown(inspect.cleandoc(command.help or ""))
        options = [row for each in command.params if (row := _option(each, context))]
        if options:
            yield table(["option", "meaning"], options)
        if len(path) == 2 and (examples := EXAMPLES.get(path[1])):
            yield "For example:\n"
            yield table(["command", ""], [(f"`{line}`", _escaped(why)) for line, why in examples])
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None and not below.hidden:
                    yield from _command(below, [*path, name], level + 1)


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    return f"`{record[0]}`", _escaped(record[1])


def _markdown(text: str) -> str:
    """A help text: paragraphs, where click's mark for lines that stay is dropped."""
    return _escaped(text.replace("\b\n", "")) + "\n"


def _escaped(text: str) -> str:
    """Text in which nothing but backquotes means anything."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([<>*_\[\]\\])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


# The exit codes


def exit_codes() -> str:
    """Every number with which commands end, and what it means."""
    found = sorted((error.exit_code, error) for error in _numbered(MoietyError))
    rows = [
        (str(code), f"`{error.__name__}`", _escaped(inspect.cleandoc(error.__doc__ or "")))
        for code, error in found
    ]
    return table(["code", "name", "meaning"], rows)


def _numbered(base: type[MoietyError]) -> Iterator[type[MoietyError]]:
    for below in base.__subclasses__():
        if "exit_code" in vars(below):
            yield below
        yield from _numbered(below)


# The protocol

_MESSAGE: Final = re.compile(r"^ +(MW_\w+) = (\d+),? */\* (.*?) \*/$")
_FURTHER: Final = re.compile(r"^ +/\* (.*?) \*/$")
_STRUCT: Final = re.compile(r"^struct (mw_\w+) \{$")
_FIELD: Final = re.compile(r"^ +((?:struct )?\w+) (\w+(?:\[[\w]+\])?);(?: */\* (.*?) \*/)?$")
_ABOUT: Final = re.compile(r"^/\* (.*?) \*/$")


def protocol() -> str:
    """The messages, and the structs that they are."""
    lines = HEADER.read_text().splitlines()
    return f"## Messages\n\n{_messages(lines)}\n## Structs\n\n{_structs(lines)}"


def _messages(lines: list[str]) -> str:
    begin = lines.index("enum mw_type {")
    rows: list[list[str]] = []
    for line in lines[begin + 1 : lines.index("};", begin)]:
        if found := _MESSAGE.match(line):
            rows.append([found[2], f"`{found[1]}`", _directed(found[3])])
        elif (found := _FURTHER.match(line)) and rows:
            rows[-1][2] += f"; {_directed(found[1])}"
    return table(["type", "name", "meaning"], rows)


def _directed(text: str) -> str:
    """The comment with its directions in words."""
    for mark, words in (("> < ", "either way: "), ("> ", "to the agent: "), ("< ", "from it: ")):
        if text.startswith(mark):
            return words + _escaped(text.removeprefix(mark))
    return _escaped(text)


def _structs(lines: list[str]) -> str:
    parts: list[str] = []
    rows: list[list[str]] = []
    name = ""
    for before, line in zip(["", *lines], lines, strict=False):
        if found := _STRUCT.match(line):
            name, rows = found[1], []
            parts.append(f"### {name}\n")
            if about := _ABOUT.match(before):
                parts.append(_escaped(about[1]) + "\n")
        elif name and line == "};":
            parts.append(table(["field", "type", "meaning"], rows))
            name = ""
        elif name and (found := _FIELD.match(line)):
            rows.append([f"`{found[2]}`", f"`{found[1]}`", _escaped(found[3] or "")])
        elif name and (found := _FURTHER.match(line)) and rows:
            rows[-1][2] += f"; {_escaped(found[1])}"
    return "\n".join(parts)


PARTS: Final[dict[str, Callable[[], str]]] = {
    "commands": commands,
    "exit-codes": exit_codes,
    "protocol": protocol,
}
"""by the name after `generated:`"""
