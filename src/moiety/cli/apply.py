"""`moiety apply`: make or change the projects of the pool."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_files import read_projects
from moiety.pool.client import PoolClient


@click.command()
@click.option("-f", "--file", required=True, help="A YAML file with projects.")
@output_option
def apply(file: str, output: str) -> None:
    """Make or change the projects that a file names, at once; others stay as they are.

    Each has a name, and may have a parent, a quota and a limit in GPUs, a weight, a priority,
    times of a week with another quota, and the users who may submit to it.
    """
    wanted = read_projects(file)
    answer = PoolClient().put("/projects", dict[str, list[str]], wanted)
    if output == "json":
        emit_json(answer)
        return
    for line in answer["changes"] or ["nothing is different"]:
        click.echo(line)
