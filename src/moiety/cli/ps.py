"""`moiety ps`: who shares the GPUs."""

from __future__ import annotations

import click

from moiety.agent import requests
from moiety.agent.caller import call
from moiety.agent.directory import find
from moiety.cli.show import emit_json, output_option, seconds, size, table
from moiety.model.errors import NoAgent

TITLES = (
    "TENANT",
    "PID",
    "PROGRAM",
    "GPU",
    "STATE",
    "ALLOCATED",
    "RESIDENT",
    "LIMIT",
    "HAND-OFFS",
    "WAITED",
    "REASON",
)


@click.command()
@output_option
def ps(output: str) -> None:
    """List the programs that share the GPUs."""
    try:
        with call(find()) as agent:
            rows = agent.ask(requests.Ps(), requests.Processes).rows
    except NoAgent:
        if output == "json":
            emit_json([])
        else:
            click.echo("no agent is running, so no GPU is shared")
        return
    if output == "json":
        emit_json(rows)
        return
    click.echo(table(TITLES, [_cells(row) for row in rows]))


def _cells(row: requests.ProcessRow) -> list[str]:
    reason = row.reason
    if row.pinned:
        reason = f"{reason}; " * bool(reason) + f"cannot leave the GPU ({row.pinned})"
    if row.waiting_s is not None:
        reason = f"{reason} (for {seconds(row.waiting_s)})".strip()
    return [
        str(row.tenant),
        str(row.pid),
        row.program,
        "-" if row.gpu is None else str(row.gpu),
        row.state,
        size(row.allocated_bytes),
        size(row.resident_bytes),
        size(row.limit_bytes),
        str(row.handoffs),
        seconds(row.waited_s),
        reason,
    ]
