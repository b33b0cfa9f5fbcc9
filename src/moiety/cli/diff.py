"""`moiety diff`: what `moiety apply` would change."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_files import read_projects
from moiety.model.format import plain
from moiety.pool.client import PoolClient
from moiety.pool.model.project_rows import ProjectsDiff


@click.command()
@click.option("-f", "--file", required=True, help="A YAML file with projects.")
@output_option
def diff(file: str, output: str) -> None:
    """Show what `moiety apply` with the same file would change, and change nothing.

    It also names the projects that would have more than their quota or limit then.
    """
    found = PoolClient().post("/projects/diff", ProjectsDiff, read_projects(file))
    if output == "json":
        emit_json(found)
        return
    for line in found.changes or ["nothing is different"]:
        click.echo(plain(line))
    for line in found.above:
        click.echo(plain(line))
