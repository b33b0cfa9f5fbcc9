"""Writes man/moiety.1, the manual page of the command, from what `--help` says."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from tools.site.reference import attribute_docs

from moiety.cli.examples import EXAMPLES
from moiety.cli.main import COMMANDS, module_of
from moiety.model.errors import ExitCode

PAGE: Final = Path(__file__).resolve().parents[1] / "man" / "moiety.1"
HEAD: Final = r""".\" Written by tools/man_page.py.
.TH MOIETY 1
.SH NAME
moiety \- let many programs share GPUs
.SH SYNOPSIS
.B moiety
.I command
[\fIoptions\fR]
.SH DESCRIPTION
Unmodified CUDA programs run side by side on one GPU, and each may allocate all of its memory. When
their memory does not fit together, they take turns. Without a GPU every command works on a
simulated one:
.B MOIETY_SIMGPU=A100\-80
.SH COMMANDS"""
FOOT: Final = r""".SH FILES
.BR "moiety config" " names the files of settings that are read, and what each sets."
.SH SEE ALSO
.BR nvidia\-smi (1)"""


def page() -> str:
    """The whole manual page, in the macros of man(7)."""
    lines = [HEAD]
    for name in COMMANDS:
        command = getattr(importlib.import_module(module_of(name)), name)
        lines += _command(command, ["moiety", name])
    lines += [".SH EXIT STATUS", *_item("0", "Success.")]
    meanings = attribute_docs(ExitCode)
    for code in sorted(ExitCode):
        lines += _item(str(code.value), meanings[code.name])
    return "\n".join([*lines, FOOT]) + "\n"


def _command(command: click.Command, path: list[str]) -> Iterator[str]:
    with click.Context(command, info_name=" ".join(path)) as context:
        yield f".SS {quoted(command.get_usage(context).removeprefix('Usage: '))}"
        yield from _paragraphs(inspect.cleandoc(command.help or ""))
        for parameter in command.params:
            record = parameter.get_help_record(context)
            if isinstance(parameter, click.Option) and record is not None:
                yield from _item(*record)
        for line, why in EXAMPLES.get(path[1], ()) if len(path) == 2 else ():
            said = f"For example, {why}:" if why else "For example:"
            yield from (".PP", escaped(said), ".RS", escaped(line), ".RE")
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None and not below.hidden:
                    yield from _command(below, [*path, name])


def _item(term: str, text: str) -> Iterator[str]:
    yield from (".TP", f".B {quoted(term)}", escaped(" ".join(text.split())))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):  # click's mark for lines that stay as they are
            yield from (".PP", ".nf", *map(escaped, paragraph.splitlines()[1:]), ".fi")
        else:
            yield from (".PP", escaped(" ".join(paragraph.split())))


def escaped(text: str) -> str:
    """Text in which nothing means anything to roff."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\\&" + plain if plain.startswith((".", "'")) else plain


def quoted(text: str) -> str:
    """The same as one argument of a macro."""
    return '"' + escaped(" ".join(text.split())).replace('"', '""') + '"'


if __name__ == "__main__":
    PAGE.write_text(page())
