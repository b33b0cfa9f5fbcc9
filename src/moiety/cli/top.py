"""`moiety top`: the GPUs and their tenants, live."""

from __future__ import annotations

import os
import sys

import click

from moiety.agent.system.paths import find
from moiety.cli.living import end
from moiety.cli.output import (
    Duration,
    builtins,
    colour_wanted,
    emit_json,
    fold,
    output_option,
    table,
)
from moiety.cli.ps import LESS
from moiety.cli.status import agent_line
from moiety.model.errors import BadArgument, NoAgent, ScreenMissing
from moiety.model.format import format_duration
from moiety.top.rows import TITLES, bar, cells, gpu_words, ordered, plain_bar
from moiety.top.sample import Look, Rates, look

INTERVAL_MIN_S = 0.1
INTERVAL_MAX_S = 3600.0
BAR_WIDTH = 40


@click.command()
@click.option("--interval", type=Duration(), default=1.0, help="Time between two looks [1s].")
@click.option("--once", is_flag=True, help="Print one look and end, as when there is no terminal.")
@output_option
def top(interval: float, once: bool, output: str) -> None:
    """Watch the GPUs and the programs that share them: q quits, p pauses, s sorts.

    / shows only programs and users with a text, Escape shows all again, and h draws the last hour
    of each GPU. The arrows choose a program, and k asks whether to end it (SIGTERM), as `moiety
    kill` does. A screen of less than 120 columns shows fewer columns.

    With -o json, one look: what `status` and `ps` say, at one moment.
    """
    if not INTERVAL_MIN_S <= interval <= INTERVAL_MAX_S:
        raise BadArgument(
            f"--interval {format_duration(interval)} is no time between two looks",
            "--interval 100ms at least, --interval 1h at most",
        )
    directory = find()
    # The screen is drawn on stderr, as in programs whose stdout may be another program's input.
    terminal = all(s and s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr))
    if once or output == "json" or not terminal:
        now = look(directory)
        if now.error is not None and not isinstance(now.error, NoAgent):
            raise now.error
        if output == "json":
            emit_json({"status": builtins(now.status), "ps": now.rows})
        else:
            click.echo(snapshot(now))
        return
    if not colour_wanted():
        os.environ["NO_COLOR"] = "1"  # which the screen's library looks at
    try:
        from moiety.top.app import Top
    except ModuleNotFoundError as error:
        if error.name not in ("textual", "rich"):
            raise
        raise ScreenMissing from None
    Top(lambda: look(directory), agent_line, end, interval).run()


def snapshot(now: Look) -> str:
    """One look as plain text."""
    if now.status is None:
        return now.problem
    rates = Rates()
    lines = [fold(agent_line(now.status), 2)]
    for gpu in now.status.gpus:
        drawn = plain_bar(bar(gpu, now.rows, BAR_WIDTH))
        lines.append(f"GPU {gpu.gpu} {gpu.name} [{drawn}] {gpu_words(gpu)}")
    rows = [cells(row, rates) for row in ordered(now.rows, "tenant", rates)]
    lines.append(table(TITLES, rows, LESS))
    return "\n".join(lines)
