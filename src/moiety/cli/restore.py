"""`moiety restore`: a copy of the store in its place, while the pool is down."""

from __future__ import annotations

from pathlib import Path

import click

from moiety.cli.output import emit_json, output_option
from moiety.pool.paths import pool_paths


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@output_option
def restore(file: Path, output: str) -> None:
    """Put FILE, of `moiety backup`, in the place of the pool's store. The pool must be down.

    The store that was there stays beside it, under another name.
    """
    from moiety.pool.store import backup as copies

    old = copies.restore(pool_paths(), file)
    if output == "json":
        emit_json({"file": str(file), "old": None if old is None else str(old)})
        return
    click.echo(f"{file} is the store of the pool now; `moiety up` begins with it")
    if old is not None:
        click.echo(f"the one before is {old}")
