"""`moiety kill`: send a signal to a program that shares the GPUs."""

from __future__ import annotations

import signal
from typing import Final

import click

from moiety.cli.lazy_completion import completed
from moiety.cli.living import living, send
from moiety.cli.output import emit_json, output_option

SIGNALS: Final = ("TERM", "INT", "HUP", "QUIT", "KILL", "USR1", "USR2", "STOP", "CONT")


@click.command()
@click.argument("target", metavar="TENANT|PID|NAME", shell_complete=completed("tenants"))
@click.option(
    "-s",
    "--signal",
    "name",
    type=click.Choice(SIGNALS, case_sensitive=False),
    default="TERM",
    show_default=True,
    help="The signal to send.",
)
@output_option
def kill(target: str, name: str, output: str) -> None:
    """Send a signal to a program that shares the GPUs.

    A number means one process, a name or the id of a workload all of its processes that use a GPU.
    The kernel decides who may: the program's own user, and root.
    """
    sent = []
    with living(target) as processes:
        for pidfd, row in processes.items():
            if not send(pidfd, row, signal.Signals[f"SIG{name.upper()}"]):
                continue
            sent.append({"tenant": row.tenant, "pid": row.pid, "program": row.program})
            if output != "json":
                click.echo(f"SIG{name.upper()} sent to {row.program} (pid {row.pid})")
    if output == "json":
        emit_json(sent)
