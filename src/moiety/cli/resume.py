"""`moiety resume`: let a suspended program go on."""

from __future__ import annotations

import sys

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.system.paths import find
from moiety.cli import pool_suspend
from moiety.cli.lazy_completion import completed
from moiety.cli.output import emit_json, output_option
from moiety.cli.several import each
from moiety.cli.suspend import must_suspend
from moiety.pool.model.records import WorkRow


@click.command()
@click.argument(
    "targets",
    metavar="TENANT|PID|NAME|ID...",
    nargs=-1,
    required=True,
    shell_complete=completed("tenants"),
)
@output_option
def resume(targets: tuple[str, ...], output: str) -> None:
    """Let a suspended program go on: its memory comes back with its next turn.

    It is refused while others have what the program's share was promised. A workload of the pool
    goes on as soon as its own GPUs have room for it.
    """
    done, code = each(targets, _resume, None if output == "json" else _show)
    if output == "json":
        emit_json(done)
    sys.exit(code)


def _show(_: str, done: WorkRow | protocol.WorkloadResumed) -> None:
    if isinstance(done, WorkRow):
        pool_suspend.show(done)
        return
    who = f"{done.program} (pid {done.pid})" if done.pid else done.program
    click.echo(f"{who} {'goes on' if done.was_suspended else 'was not suspended'}")


def _resume(target: str) -> WorkRow | protocol.WorkloadResumed:
    """Resume a workload of the pool, or another program that shares the GPUs."""
    row = pool_suspend.resume(target)
    if row is not None:
        return row
    with call(find()) as agent:
        must_suspend(agent)
        return agent.ask(protocol.ResumeWorkload(target), protocol.WorkloadResumed)
