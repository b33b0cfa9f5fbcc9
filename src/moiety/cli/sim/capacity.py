"""`moiety sim capacity`: its output, and the search for a trace that is a folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from moiety.cli.output import count, emit_json, seconds, table

if TYPE_CHECKING:
    from moiety.sim.outcome import GangOutcome
    from moiety.sim.results import Result


class Tried(Protocol):
    """A replay on a cluster of some size."""

    @property
    def nodes(self) -> int:
        """The nodes of the cluster."""
        ...

    @property
    def gpus(self) -> float:
        """The GPUs of all nodes."""
        ...


def search(folder: str | None, wait_minutes: float, lenient: bool, output: str) -> None:
    """Show each size that is tried, and the smallest sufficient size."""
    from moiety.sim.capacity_nodes import needed_nodes
    from moiety.sim.replay import ReplaySettings
    from moiety.sim.tables import open_trace

    trace = open_trace(Path(folder) if folder else None, None, 0, lenient=lenient)
    tried: list[Result] = []

    def note(result: Result) -> None:
        tried.append(result)
        if sys.stderr is not None and sys.stderr.isatty():
            click.echo(f"{count(result.nodes, 'node')} ...", err=True)

    found = needed_nodes(trace, wait_minutes * 60, ReplaySettings(), note)
    tried.sort(key=lambda result: result.nodes)
    if output == "json":
        emit_sizes(found, tried)
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
    click.echo(sentence(found, wait_minutes))


def sentence(found: Tried | None, wait_minutes: float) -> str:
    """The size that was found, in words."""
    bound = seconds(wait_minutes * 60)
    if found is None:
        return f"no cluster that was tried keeps the wait of all but 5 % within {bound}"
    size = f"{found.gpus:g} GPUs on {count(found.nodes, 'node')}"
    return f"{size} keep the wait of all but 5 % within {bound}"


def emit_sizes(found: Tried | None, tried: Sequence[Tried]) -> None:
    """The size that was found (null: none), and each replay that was made for it."""
    emit_json(
        {
            "nodes": None if found is None else found.nodes,
            "gpus": None if found is None else found.gpus,
            "tried": tried,
        }
    )


def emit_splits(names: Sequence[str], outcomes: Sequence[GangOutcome]) -> None:
    """Each replay with its pools."""
    import msgspec

    pairs = zip(names, outcomes, strict=True)
    emit_json([{"pools": name, **msgspec.to_builtins(outcome)} for name, outcome in pairs])
