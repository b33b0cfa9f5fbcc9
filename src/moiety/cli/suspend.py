"""`moiety suspend`: take a program's turns away, and its memory off the GPU, for now."""

from __future__ import annotations

import sys
import time

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import Call, call
from moiety.agent.system.paths import find
from moiety.cli import pool_suspend
from moiety.cli.lazy_completion import completed
from moiety.cli.output import Duration, emit_json, output_option
from moiety.cli.several import each
from moiety.model.errors import AgentVersion
from moiety.model.format import format_bytes
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.version import __version__

ASK_S = 2.0
"""How long the agent waits before it answers how far it is."""


@click.command()
@click.argument(
    "targets",
    metavar="TENANT|PID|NAME|ID...",
    nargs=-1,
    required=True,
    shell_complete=completed("tenants"),
)
@click.option(
    "--timeout",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Wait this long for its memory to leave; it goes on leaving afterwards.",
)
@output_option
def suspend(targets: tuple[str, ...], timeout: float, output: str) -> None:
    """Take a program's turns away, and its memory off the GPU, until `moiety resume`.

    The program runs on until it needs the GPU, and waits then. All of its workload's processes are
    suspended with it, and what its share promises can be promised to others meanwhile. Its context
    stays on the GPU, and so does memory that cannot leave. The exit code is 75 if memory is still
    leaving after the timeout.

    While a pool is up, its workloads are meant first, by number or name. Their processes are
    stopped, too, once their memory has left, and their time limit stands still.
    """
    end_s = time.monotonic() + timeout

    def show(_: str, done: WorkRow | protocol.WorkloadSuspended) -> None:
        if isinstance(done, WorkRow):
            pool_suspend.show(done)
        else:
            _show(done)

    found, code = each(
        targets, lambda target: _suspend(target, end_s), None if output == "json" else show
    )
    if output == "json":
        emit_json(found)
    sys.exit(code or (0 if all(map(_is_over, found)) else 75))


def _suspend(target: str, end_s: float) -> WorkRow | protocol.WorkloadSuspended:
    """Suspend a workload of the pool, or another program that shares the GPUs."""
    row = pool_suspend.suspend(target, max(0.0, end_s - time.monotonic()))
    if row is not None:
        return row
    with call(find()) as agent:
        must_suspend(agent)
        return _wait(agent, target, end_s)


def _is_over(done: WorkRow | protocol.WorkloadSuspended) -> bool:
    if isinstance(done, WorkRow):
        return done.state is not WorkState.SUSPENDING
    return done.is_over


def must_suspend(agent: Call) -> None:
    """Raise AgentVersion for an agent that cannot suspend."""
    if protocol.SUSPEND not in agent.agent.features:
        raise AgentVersion(agent=agent.agent.product, own=__version__)


def _wait(agent: Call, target: str, end_s: float) -> protocol.WorkloadSuspended:
    """Suspend a workload; returns once it is, or at the end of the time."""
    while True:
        left_s = max(0.0, end_s - time.monotonic())
        asked = protocol.SuspendWorkload(target, min(ASK_S, left_s))
        found = agent.ask(asked, protocol.WorkloadSuspended)
        if found.is_over or left_s == 0.0:
            return found
        target = found.workload


def _show(found: protocol.WorkloadSuspended) -> None:
    who = f"{found.program} (pid {found.pid})" if found.pid else found.program
    moved = f"{format_bytes(found.evicted_bytes)} left the GPU" if found.evicted_bytes else ""
    context = f"{format_bytes(found.residue_bytes)} of its contexts stay there"
    parts = [moved] * bool(moved) + [context] * bool(found.residue_bytes)
    does = "is suspended" if found.is_over else "is being suspended"
    click.echo(f"{who} {does}{': ' * bool(parts)}{', '.join(parts)}")
    for line in found.stays:
        click.echo(f"  {line}")
    click.echo(f"  `moiety resume {found.workload}` lets it go on")
