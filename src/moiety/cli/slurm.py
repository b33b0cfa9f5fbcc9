"""`moiety slurm`: Slurm's programs for the pool, and what they make of a script."""

from __future__ import annotations

from pathlib import Path

import click

from moiety.cli.output import emit_json, output_option
from moiety.slurm.install import install as write_programs


@click.group()
def slurm() -> None:
    """Let Slurm's scripts and programs use the pool of this machine."""


@slurm.command()
@click.argument("folder", type=click.Path(path_type=Path))
@output_option
def install(folder: Path, output: str) -> None:
    """Write sbatch, srun, salloc, squeue, scancel, sacct, sinfo and scontrol into FOLDER."""
    found = write_programs(folder.absolute())
    if output == "json":
        emit_json({"programs": [str(path) for path in found]})
        return
    for path in found:
        click.echo(path)
