"""Every line that help shows as an example is one that can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from moiety.cli.examples import EXAMPLES
from moiety.cli.main import COMMANDS, moiety

FILES = {"workload.yaml": "command: [python, train.py]\n"}
"""What the files of examples have that are read while a line is parsed."""

LINES = [line for examples in EXAMPLES.values() for line, _ in examples]


def test_examples_are_of_commands_and_show_them() -> None:
    assert {command.partition(" ")[0] for command in EXAMPLES} <= set(COMMANDS)
    for command, examples in EXAMPLES.items():
        assert all(re.search(rf"moiety (help )?{command}", line) for line, _ in examples)


@pytest.mark.parametrize("line", LINES)
def test_an_example_can_be_typed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is parsed as it would be; nothing is run."""
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).write_text(text)
    typed = re.sub(r'eval "\$\((.*)\)"', r"\1", line)
    typed = re.sub(r"\s\d?>.*", "", typed)
    name, *arguments = shlex.split(typed)
    assert name == "moiety"
    ctx = click.Context(moiety, info_name="moiety")
    command: click.Command = moiety
    while isinstance(command, click.Group):
        found, below, arguments = command.resolve_command(ctx, arguments)
        assert below is not None
        command = below
        made = command.make_context(found, list(arguments), parent=ctx)
        arguments = [*made._protected_args, *made.args] if isinstance(command, click.Group) else []
        ctx = made
    owner = next(c for c, examples in EXAMPLES.items() if line in [shown for shown, _ in examples])
    said = help_of(owner.split())
    assert line in click.unstyle(said)


def help_of(words: list[str]) -> str:
    command: click.Command = moiety
    ctx = click.Context(moiety, info_name="moiety")
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(ctx, word)
        assert found is not None
        ctx = click.Context(found, info_name=word, parent=ctx)
        command = found
    return command.get_help(ctx)
