"""`moiety version`."""

from __future__ import annotations

import click

from moiety.version import __version__
from moiety.wire.layout import VERSION


@click.command()
def version() -> None:
    """Show the versions of moiety and of its protocol."""
    click.echo(f"moiety {__version__} (protocol {VERSION})")
