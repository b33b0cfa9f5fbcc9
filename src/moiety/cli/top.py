"""`moiety top`: the GPUs and their tenants, live."""

from __future__ import annotations

import os
import sys

import click

from moiety.agent.directory import find
from moiety.cli.show import Duration, colour_wanted, table
from moiety.cli.status import agent_line
from moiety.model.errors import BadArgument, ScreenMissing
from moiety.top.look import Look, Rates, look
from moiety.top.rows import TITLES, bar, cells, gpu_words, ordered, plain_bar

INTERVAL_MIN_S = 0.1
BAR_WIDTH = 40


@click.command()
@click.option("--interval", type=Duration(), default=1.0, help="Time between two looks [1s].")
@click.option("--once", is_flag=True, help="Print one look and end, as when there is no terminal.")
def top(interval: float, once: bool) -> None:
    """Watch the GPUs and the programs that share them: q quits, p pauses, s sorts."""
    if interval < INTERVAL_MIN_S:
        raise BadArgument(f"--interval {interval:g}s is too short to read; at least 100ms")
    directory = find()
    # The screen is drawn on stderr, as programs do whose stdout may be somebody's input.
    if once or not all(s and s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)):
        click.echo(snapshot(look(directory)))
        return
    if not colour_wanted():
        os.environ["NO_COLOR"] = "1"  # which the screen's library looks at
    try:
        from moiety.top.app import Top
    except ModuleNotFoundError as error:
        if error.name not in ("textual", "rich"):
            raise
        raise ScreenMissing from None
    Top(lambda: look(directory), agent_line, interval).run()


def snapshot(now: Look) -> str:
    """One look as plain text."""
    if now.status is None:
        return now.problem
    rates = Rates()
    lines = [agent_line(now.status)]
    for gpu in now.status.gpus:
        drawn = plain_bar(bar(gpu, now.rows, BAR_WIDTH))
        lines.append(f"GPU {gpu.gpu} {gpu.name} [{drawn}] {gpu_words(gpu)}")
    rows = [cells(row, rates) for row in ordered(now.rows, "tenant", rates)]
    lines.append(table(TITLES, rows))
    return "\n".join(lines)
