"""`moiety help`: the help of a command, by its name."""

from __future__ import annotations

import click

from moiety.cli.lazy_completion import completed


@click.command()
@click.argument("names", nargs=-1, metavar="[COMMAND]...", shell_complete=completed("commands"))
@click.pass_context
def help(ctx: click.Context, names: tuple[str, ...]) -> None:  # noqa: A001 - its own name
    """Show the help of COMMAND, as `moiety COMMAND --help` does."""
    inner = ctx.find_root()
    command = inner.command
    for name in names:
        if not isinstance(command, click.Group):
            inner.fail(f"'{inner.command_path}' has no commands of its own.")
        found, below, _ = command.resolve_command(inner, [name])
        if below is None:
            inner.fail(f"No such command '{name}'.")
        inner = click.Context(below, info_name=found, parent=inner)
        command = below
    click.echo(command.get_help(inner))
