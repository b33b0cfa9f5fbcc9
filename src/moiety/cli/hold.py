"""`moiety hold`: keep a workload that waits from starting until it is released."""

from __future__ import annotations

import sys

import click

from moiety.cli.output import output_option
from moiety.cli.pool_arrays import act_on
from moiety.pool.client import PoolClient


@click.command()
@click.argument("targets", metavar="ID|NAME...", nargs=-1, required=True)
@output_option
def hold(targets: tuple[str, ...], output: str) -> None:
    """Keep a workload that waits from starting until it is released."""
    sys.exit(act_on(PoolClient(), targets, "hold", output))
