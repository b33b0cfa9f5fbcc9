"""`moiety apply`: make or change the projects of the pool."""

from __future__ import annotations

import math
from pathlib import Path

import click
import msgspec

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_files import read_yaml
from moiety.model.errors import PoolFileInvalid
from moiety.pool.client import PoolClient
from moiety.pool.model.records import Projects


@click.command()
@click.option("-f", "--file", required=True, help="A YAML file with projects.")
@output_option
def apply(file: str, output: str) -> None:
    """Make or change the projects that a file names, at once; others stay as they are.

    Each has a name, and may have a parent, a quota and a limit in GPUs, a weight, a priority, and
    the users who may submit to it.
    """
    try:
        wanted = msgspec.convert(read_yaml(Path(file)), Projects)
    except msgspec.ValidationError as error:
        raise PoolFileInvalid(file, str(error)) from None
    for each in wanted.projects:  # JSON has no such numbers
        if not all(map(math.isfinite, (each.quota or 0, each.limit or 0, each.weight))):
            raise PoolFileInvalid(file, f"project {each.name}: a number is not finite")
    answer = PoolClient().put("/projects", dict[str, list[str]], wanted)
    if output == "json":
        emit_json(answer)
        return
    for line in answer["changes"] or ["nothing is different"]:
        click.echo(line)
