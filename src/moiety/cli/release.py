"""`moiety release`: let a held workload start."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_arrays import outcome_line
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import WorkRow


@click.command()
@click.argument("targets", metavar="ID|NAME...", nargs=-1, required=True)
@output_option
def release(targets: tuple[str, ...], output: str) -> None:
    """Let a held workload start."""
    pool = PoolClient()
    rows = [pool.post(of(target, "release"), WorkRow) for target in targets]
    if output == "json":
        emit_json(rows)
        return
    for target, row in zip(targets, rows, strict=True):
        click.echo(outcome_line(pool, target, row))
