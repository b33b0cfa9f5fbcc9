"""`moiety explain`: why a workload of the pool waits."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option
from moiety.model.format import plain
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import WorkExplanation


@click.command()
@click.argument("target", metavar="ID|NAME")
@output_option
def explain(target: str, output: str) -> None:
    """Say in one sentence why a workload waits, who is ahead of it, and until when.

    It names what would have to end for it, and when it is expected to start.
    """
    found = PoolClient().get(of(target, "explain"), WorkExplanation)
    if output == "json":
        emit_json(found)
        return
    text = f"workload {found.id} is {found.state}"
    if found.text:
        text += f": {plain(found.text)}"
    click.echo(text)
    if found.is_final:
        click.echo("it can never start as it is: cancel it, and submit it with other options")
