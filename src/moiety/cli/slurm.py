"""`moiety slurm`: Slurm's programs for the pool, and what they make of a script."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from moiety.cli.output import Size, emit_json, output_option
from moiety.model.errors import NoPool
from moiety.slurm.install import install as write_programs
from moiety.slurm.pool import SlurmPool
from moiety.slurm.submit.check import check as checked
from moiety.slurm.submit.request import MachineSize, machine_of_this
from moiety.slurm.submit.sending import machine_of


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


@slurm.command()
@click.option(
    "--cpus", type=click.IntRange(1, 1 << 20), help="As if the machine had this many processors."
)
@click.option("--host-memory", type=Size(), help="As if it had this much memory.")
@click.option("--gpus", type=click.IntRange(0, 1 << 16), help="As if it had this many GPUs.")
@click.option("--gpu-model", default="", help="The model of these GPUs.")
@click.option("--strict", is_flag=True, help="Refuse a model of GPU that is not here.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
@output_option
def check(
    cpus: int | None,
    host_memory: int | None,
    gpus: int | None,
    gpu_model: str,
    strict: bool,
    words: tuple[str, ...],
    output: str,
) -> None:
    """Show what would become of `sbatch WORDS...`, and submit nothing; put -- before its options.

    The machine is that of the pool, or without one this machine without GPUs. The exit code is 1
    for a script that would be refused.
    """
    machine = _machine()
    models = machine.gpu_models if gpus is None else (gpu_model or "GPU",) * gpus
    machine = replace(
        machine,
        cpus=machine.cpus if cpus is None else cpus,
        memory_mib=machine.memory_mib if host_memory is None else host_memory >> 20,
        gpu_models=models,
        is_strict=strict,
    )
    found = checked(words, machine)
    if output == "json":
        emit_json(found)
    else:
        click.echo("\n".join(_lines(found)))
    if found["verdict"] != "accepted":
        sys.exit(1)


def _machine() -> MachineSize:
    pool = SlurmPool()
    try:
        return machine_of(pool.get("/status"))
    except NoPool:
        return machine_of_this()
    finally:
        pool.close()


def _lines(found: dict[str, Any]) -> Iterator[str]:
    if found["verdict"] != "accepted":
        yield f"refused: {found['reason']}"
        if found["try"]:
            yield f"try: {found['try']}"
        return
    yield "accepted"
    for note in found["notes"]:
        yield f"note: {note}"
    for part in ("request", "files", "variables"):
        for name, value in found[part].items():
            if value not in ("", None, [], False):
                yield f"{part}: {name}={value}"
