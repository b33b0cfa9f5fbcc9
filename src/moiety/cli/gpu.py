"""`moiety gpu`: list the GPUs with the programs on each, drain one and give it back."""

from __future__ import annotations

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import GpuUse, GpuUser
from moiety.agent.system.paths import find
from moiety.cli.lazy_completion import completed
from moiety.cli.output import (
    STRUCTURED,
    count,
    emit,
    emit_json,
    output_option,
    part,
    size,
    table,
    yaml_output_option,
)
from moiety.model.cards import split
from moiety.model.errors import NoAgent

TITLES = ("GPU", "NAME", "STATE", "TIME", "MEMORY", "PROGRAMS")
LESS = ("NAME",)
"""Columns that a narrow terminal leaves out."""


@click.group()
def gpu() -> None:
    """List the GPUs, and drain those that are to get no new programs."""


@gpu.command(name="ls")
@yaml_output_option
def list_gpus(output: str) -> None:
    """List the GPUs, what of each is promised, and the programs on it.

    TIME and MEMORY are guaranteed to programs. A program in brackets does not use the GPU yet: the
    GPU is kept for it.
    """
    try:
        with call(find()) as agent:
            rows = agent.ask(protocol.GpusRequest(), protocol.GpuList).rows
    except NoAgent:
        if output in STRUCTURED:
            emit([], output)
        else:
            click.echo("no agent is running, so no GPU is shared")
        return
    if output in STRUCTURED:
        emit(rows, output)
        return
    click.echo(table(TITLES, [_cells(row) for row in rows], LESS))


@gpu.command()
@click.argument("gpus", nargs=-1, required=True, metavar="GPU...", shell_complete=completed("gpus"))
@output_option
def drain(gpus: tuple[str, ...], output: str) -> None:
    """Choose these GPUs for no new program; programs on them go on.

    A GPU is named by its index, or by the beginning of its UUID. It stays drained when the agent
    restarts, until `moiety gpu resume`. Only an administrator may drain GPUs.
    """
    rows = _set(gpus, drained=True)
    if output == "json":
        emit_json(rows)
        return
    for row in rows:
        has = count(len(row.users) + row.others, "program")
        click.echo(f"GPU {row.gpu} is drained: it gets no new programs, and has {has}")


@gpu.command()
@click.argument("gpus", nargs=-1, required=True, metavar="GPU...", shell_complete=completed("gpus"))
@output_option
def resume(gpus: tuple[str, ...], output: str) -> None:
    """Choose these GPUs for new programs again."""
    rows = _set(gpus, drained=False)
    if output == "json":
        emit_json(rows)
        return
    for row in rows:
        click.echo(f"GPU {row.gpu} gets new programs again")


def _set(gpus: tuple[str, ...], *, drained: bool) -> list[GpuUse]:
    """Drain GPUs, or give them back; raises NoAgent, NotAllowed or BadArgument."""
    asked = protocol.DrainGpus(list(split(gpus)), drained)
    with call(find()) as agent:
        return agent.ask(asked, protocol.GpuList).rows


def _cells(row: GpuUse) -> list[str]:
    others = [f"{row.others} of others"] if row.others else []
    return [
        str(row.gpu),
        row.name,
        "lost" if row.lost else "drained" if row.drained else "ready",
        part(row.promised_gpu),
        f"{size(row.promised_bytes)} of {size(row.capacity_bytes)}",
        ", ".join([*map(_named, row.users), *others]) or "-",
    ]


def _named(user: GpuUser) -> str:
    """One program, with its user; in brackets if the GPU is only kept for it."""
    named = f"{user.program} ({user.user})"
    return named if user.pids else f"[{named}]"
