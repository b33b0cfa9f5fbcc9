"""`moiety status`: the GPUs of this machine and who holds them."""

from __future__ import annotations

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import GpuRow
from moiety.agent.system.paths import find
from moiety.cli.output import count, emit_json, fold, output_option, seconds, size, table
from moiety.model.errors import NoAgent
from moiety.model.format import plain

TITLES = (
    "GPU",
    "NAME",
    "TOTAL",
    "SHARED",
    "RESIDENT",
    "FREE",
    "USED",
    "BUSY",
    "HOLDERS",
    "WAITING",
)
LESS = ("USED", "TOTAL", "BUSY")
"""Columns that a narrow terminal leaves out, in this order."""


@click.command()
@output_option
def status(output: str) -> None:
    """Show the GPUs, their memory and their holders."""
    try:
        with call(find()) as agent:
            found = agent.ask(protocol.Status(), protocol.NodeStatus)
    except NoAgent:
        if output == "json":
            emit_json(None)
        else:
            click.echo("no agent is running, so no GPU is shared")
        return
    if output == "json":
        emit_json(found)
        return
    click.echo(fold(agent_line(found), 2))
    click.echo(table(TITLES, [_cells(row) for row in found.gpus], LESS))
    for note in found.notes:
        click.echo(fold(plain(note), 2))


def agent_line(found: protocol.NodeStatus) -> str:
    """The agent in one line."""
    simulated = " (simulated GPUs)" if found.simulated else ""
    metrics = f"; metrics at {found.metrics}" if found.metrics else ""
    settled = "" if found.settled else ", waiting for running programs to reconnect"
    whose = f"agent of all users, as {found.user}," if found.shared else "agent"
    return (
        f"{whose} {found.product}, pid {found.pid}, up {seconds(found.up_s)}{settled}; "
        f"driver {found.driver_version or 'unknown'}{simulated}; "
        f"{count(found.tenants, 'tenant')} in {count(found.workloads, 'workload')}; "
        f"{size(found.arena_bytes)} of host memory for evicted data "
        f"({size(found.arena_ready_bytes)} ready, {size(found.arena_used_bytes)} used)"
        f"{metrics}"
    )


def _cells(row: GpuRow) -> list[str]:
    return [
        str(row.gpu),
        row.name,
        size(row.total_bytes),
        size(row.capacity_bytes),
        size(row.resident_bytes),
        size(max(0, row.free_bytes)),
        size(row.used_bytes),
        "-" if row.utilisation is None else f"{row.utilisation:.0%}",
        ",".join(map(str, row.holders)) or "-",
        ",".join(map(str, row.waiting)) or "-",
    ]
