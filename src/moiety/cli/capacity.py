"""`moiety sim capacity` for a trace of single tasks: a folder with nodes and jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moiety.cli.show import count, seconds, table

if TYPE_CHECKING:
    from moiety.sim.results import Result


def search(folder: str | None, wait_minutes: float, lenient: bool, output: str) -> None:
    """Show each size that is tried, and the smallest that will do."""
    from moiety.sim.capacity_nodes import needed_nodes
    from moiety.sim.replay import Setting
    from moiety.sim.tables import open_trace

    trace = open_trace(Path(folder) if folder else None, None, 0, lenient=lenient)
    tried: list[Result] = []

    def note(result: Result) -> None:
        tried.append(result)
        if sys.stderr is not None and sys.stderr.isatty():
            click.echo(f"{count(result.nodes, 'node')} ...", err=True)

    found = needed_nodes(trace, wait_minutes * 60, Setting(), note)
    tried.sort(key=lambda result: result.nodes)
    if output == "json":
        import msgspec

        plain = msgspec.to_builtins(tried)
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return
    rows = []
    for result in tried:
        live = result.live
        assert live
        rows.append(
            [
                str(result.nodes),
                f"{result.gpus:g}",
                f"{live.allocation_percent:.1f} %",
                seconds(live.wait_mean_s),
                seconds(live.wait_p95_s),
                str(live.queue_longest),
                str(sum(result.refused.values())),
            ]
        )
    titles = ["NODES", "GPUS", "IN-USE", "WAIT", "WAIT-P95", "QUEUE", "REFUSED"]
    click.echo(table(titles, rows))
    bound = seconds(wait_minutes * 60)
    if found is None:
        click.echo(f"no cluster that was tried keeps the wait of all but 5 % within {bound}")
        return
    size = f"{found.gpus:g} GPUs on {count(found.nodes, 'node')}"
    click.echo(f"{size} keep the wait of all but 5 % within {bound}")
