"""Every command that there is, by the words that call it, and what none of them expects."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from moiety.cli import main as cli
from moiety.model.errors import InternalError

moiety = cli.moiety

Words = tuple[str, ...]


def commands(
    group: click.Group = moiety, words: Words = (), above: click.Context | None = None
) -> Iterator[tuple[Words, click.Command]]:
    """The commands that do something, in the order of help; groups themselves are none."""
    ctx = click.Context(group, info_name=words[-1] if words else "moiety", parent=above)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name), ctx)
        else:
            yield (*words, name), command


def options(command: click.Command) -> Iterator[click.Option]:
    """Those of a command that take a value."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count:
            yield parameter


def long(option: click.Option) -> str:
    """Its name with two dashes."""
    return max(option.opts, key=len)


HOSTILE = (
    "",
    " ",
    "-1",
    "0",
    "1",
    "nan",
    "-inf",
    "1e999",
    "0x10",
    "9" * 30,
    "9" * 5000,
    "9" * 30 + "d",
    "0." + "9" * 30,
    "1ns",
    "1b",
    "100%",
    "x" * 5000,
    "a,b,,",
    ",",
    "%s%n{0}",
    "*",
    "[",
    "--",
    "\x1b[31m\n",
    "\udcff",
    "\u0661",
    "../" * 12 + "proc/version",  # a file that nothing can change, however deep the tests run
    "/",
    "/dev/null",
    "/dev/full",
    "/proc/nowhere/at/all",
    "x/y",
    ".",
)
"""what no option expects; each is a text that an argument of a process can be"""


def outcome(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command line, and what it says on stderr."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    code = ended.value.code
    return (code if isinstance(code, int) else 1 if code else 0), capsys.readouterr().err


def check_said(words: list[str], code: int, said: str) -> None:
    """A failure has words, and names what there is."""
    assert "Traceback" not in said, words
    assert "COMMAND --help" not in said, words
    assert "\x1b" not in said, words
    assert code != InternalError.exit_code, (words, said)
    assert "the agent failed on it" not in said, (words, said)
    findings = words[0] == "doctor" or words[:2] in (["agent", "status"], ["slurm", "check"])
    if code and not findings:
        assert re.search(r"^(moiety: |Error: )", said, re.MULTILINE), (words, code, said)
