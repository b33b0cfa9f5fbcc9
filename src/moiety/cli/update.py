"""`moiety update`: change what a workload of the pool asks for, or has."""

from __future__ import annotations

import click

from moiety.cli.output import Duration, Fraction, Size, emit_json, output_option
from moiety.cli.pool_rows import asked_of
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import WorkRow, WorkUpdate


@click.command()
@click.argument("target", metavar="ID|NAME")
@click.option("--gpu", type=Fraction(), help="The part of each GPU's time.")
@click.option("--memory", type=Size(), help="Memory of each GPU that is kept for it.")
@click.option("--time", "time_limit", type=Duration(), help="Its time limit, while it waits.")
@click.option("--priority", type=int, help="More goes first; only administrators raise it.")
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

    A part of a GPU becomes larger at once if what was promised of that GPU leaves room for it.
    """
    wanted = WorkUpdate(gpu=gpu, memory_bytes=memory, time_limit_s=time_limit, priority=priority)
    row = PoolClient().post(of(target, "update"), WorkRow, wanted)
    if output == "json":
        emit_json(row)
        return
    click.echo(f"workload {row.shown_id} is {row.state}, {asked_of(row)} GPU")
