"""What the reference pages take from the code: commands and exit codes."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from moiety.cli.examples import EXAMPLES
from moiety.cli.main import COMMANDS, module_of
from moiety.model.errors import ExitCode


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
            yield table(["command", ""], [(f"`{line}`", escaped(why)) for line, why in examples])
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
    return f"`{record[0]}`", escaped(record[1])


def _markdown(text: str) -> str:
    """A help text: paragraphs; lines after click's mark for those that stay are a block."""
    parts = []
    for paragraph in text.split("\n\n"):
        stays = paragraph.startswith("\b\n")
        lines = paragraph.removeprefix("\b\n")
        parts.append(f"```text\n{lines}\n```" if stays else escaped(lines))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text in Markdown in which nothing but backquotes means anything."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([<>*_\[\]\\])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


# The exit codes


def exit_codes() -> str:
    """Every number with which commands end that fail, and what it means."""
    meanings = attribute_docs(ExitCode)
    rows = [
        (str(code.value), f"`{code.name}`", escaped(meanings[code.name]))
        for code in sorted(ExitCode)
    ]
    return table(["code", "name", "meaning"], rows)


def attribute_docs(owner: type) -> dict[str, str]:
    """The sentence that stands below each attribute of a class, by the attribute's name."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(found, ast.ClassDef)
    told = {}
    for before, after in itertools.pairwise(found.body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            target = before.targets[0] if isinstance(before, ast.Assign) else None
            if isinstance(target, ast.Name):
                told[target.id] = str(after.value.value)
    return told


PARTS: Final[dict[str, Callable[[], str]]] = {
    "commands": commands,
    "exit-codes": exit_codes,
}
"""By the name after `generated:`."""
