"""`moiety release`: let a held workload start."""

from __future__ import annotations

import sys

import click

from moiety.cli.output import output_option
from moiety.cli.pool_arrays import act_on
from moiety.pool.client import PoolClient


@click.command()
@click.argument("targets", metavar="ID|NAME...", nargs=-1, required=True)
@output_option
def release(targets: tuple[str, ...], output: str) -> None:
    """Let a held workload start."""
    sys.exit(act_on(PoolClient(), targets, "release", output))
