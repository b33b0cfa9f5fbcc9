"""`moiety backup`: a copy of the pool's store, while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from moiety.cli.output import emit_json, output_option
from moiety.pool.paths import pool_paths


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@output_option
def backup(file: Path, output: str) -> None:
    """Write a copy of the pool's store into FILE, and check it. The pool can go on meanwhile.

    The copy has all workloads, projects and the audit log, with the environments of workloads:
    only you can read it.
    """
    from moiety.pool.store import backup as copies

    size = copies.backup(pool_paths(), file)
    if output == "json":
        emit_json({"file": str(file), "bytes": size})
    else:
        click.echo(f"the store of the pool is in {file}, {size / (1 << 20):.1f} MiB")
