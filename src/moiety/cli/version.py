"""`moiety version`."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option
from moiety.version import __version__
from moiety.wire.layout import VERSION


@click.command()
@output_option
def version(output: str) -> None:
    """Show the versions of moiety and of its protocol."""
    if output == "json":
        emit_json({"version": __version__, "protocol": VERSION})
        return
    click.echo(f"moiety {__version__} (protocol {VERSION})")
