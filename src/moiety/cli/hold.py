"""`moiety hold`: keep a workload that waits from starting until it is released."""

from __future__ import annotations

import sys

import click

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_arrays import outcome_line
from moiety.cli.several import each
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import WorkRow


@click.command()
@click.argument("targets", metavar="ID|NAME...", nargs=-1, required=True)
@output_option
def hold(targets: tuple[str, ...], output: str) -> None:
    """Keep a workload that waits from starting until it is released."""
    pool = PoolClient()

    def show(target: str, row: WorkRow) -> None:
        click.echo(outcome_line(pool, target, row))

    rows, code = each(
        targets,
        lambda target: pool.post(of(target, "hold"), WorkRow),
        None if output == "json" else show,
    )
    if output == "json":
        emit_json(rows)
    sys.exit(code)
