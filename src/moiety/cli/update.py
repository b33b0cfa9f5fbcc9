"""`moiety update`: change what a workload of the pool asks for, or has."""

from __future__ import annotations

import click

from moiety.cli.output import Duration, Fraction, Size, emit_json, output_option
from moiety.cli.pool_arrays import array_named, outcome_line
from moiety.cli.pool_rows import asked_of
from moiety.model.errors import BadArgument
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import WorkRow


@click.command()
@click.argument("target", metavar="ID|NAME")
@click.option("--gpu", type=Fraction(), help="The part of each GPU's time.")
@click.option("--memory", type=Size(), help="Memory of each GPU that is kept for it.")
@click.option(
    "--time",
    "time_limit",
    type=Duration(),
    help="Its time limit; only administrators give work that runs more.",
)
@click.option(
    "--priority",
    type=int,
    help="More goes first, while it waits; only administrators raise it above 0.",
)
@output_option
def update(
    target: str,
    gpu: float | None,
    memory: int | None,
    time_limit: float | None,
    priority: int | None,
    output: str,
) -> None:
    """Change what a workload of the pool asks for, and of one that runs what it has.

    Of an array each task changes that is not over.

    A part of a GPU becomes larger at once if what was promised of that GPU leaves room for it.
    """
    said = {"gpu": gpu, "memory_bytes": memory, "time_limit_s": time_limit, "priority": priority}
    new = {name: value for name, value in said.items() if value is not None}
    if not new:
        raise BadArgument("nothing is to be different", "--gpu, --memory, --time or --priority")
    pool = PoolClient()
    row = pool.post(of(target, "amend"), WorkRow, new)
    if output == "json":
        emit_json(row)
        return
    what = "" if array_named(target, row) else f", {asked_of(row)} GPU"
    click.echo(outcome_line(pool, target, row) + what)
