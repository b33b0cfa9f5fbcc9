"""Every command that there is, by the words that call it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from moiety.cli.main import moiety

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
