"""`moiety up`: make this machine a pool in which work waits for GPUs."""

from __future__ import annotations

import importlib.util
import os
from typing import Final

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import (
    arguments_from_environment,
    ask_or_start,
    environment_of_agents,
)
from moiety.cli.output import Size, count, emit_json, output_option
from moiety.model.errors import PoolMissing
from moiety.pool import client
from moiety.pool.machine import root_part
from moiety.pool.model.records import PoolStatus
from moiety.pool.paths import pool_paths

NEEDED: Final = ("httptools", "numpy", "starlette", "uvicorn")
"""What the extra `pool` installs."""
NAMED: Final = ("MOIETY_CONFIG", "MOIETY_SYSTEM_DIR", "MOIETY_NATIVE", "PYTHONPATH")
"""The variables that a unit gets, where they are set."""


@click.command()
@click.option("--capacity", type=Size(), help="GPU memory to share out, if an agent is started.")
@click.option(
    "--agent",
    "agent_of",
    type=click.Choice(["auto", "own", "system"]),
    help="The pool of the agent of all users, or of one of your own.",
)
@click.option("--unit", is_flag=True, help="Print a systemd unit for the pool of all users.")
@output_option
def up(capacity: int | None, agent_of: str | None, unit: bool, output: str) -> None:
    """Make this machine a pool: work that is submitted waits until GPUs have room for it.

    It starts an agent if none runs. Workloads that ran when the last pool ended are taken over.
    """
    if unit:
        print_unit()
        return
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise PoolMissing(name)
    paths = pool_paths(agent_of)
    arguments = arguments_from_environment()
    if capacity is not None:
        arguments += ["--capacity", str(capacity)]
    gpus = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.GpusRequest(), protocol.GpuList)
    ).rows
    was_up = client.is_up(paths)
    if root_part.is_machines(paths):
        from moiety.pool.machine import startup  # only root needs it

        startup.start(paths, arguments)
    elif not was_up:
        client.start(paths, arguments)
    pool = client.PoolClient(paths)
    status = pool.get("/status", PoolStatus)
    if output == "json":
        emit_json(status)
        return
    verb = "is up already" if was_up else "is up"
    waiting = status.counts.get("pending", 0) + status.counts.get("held", 0)
    running = sum(status.counts.values()) - waiting
    click.echo(
        f"the pool of {count(len(gpus), 'GPU')} {verb}: {running} running, {waiting} waiting"
    )


def print_unit() -> None:
    """Print the unit with the variables that name files of ours here."""
    from moiety.pool.machine.systemd_unit import unit as text_of  # seldom needed

    here = environment_of_agents()
    environment = [(name, here[name]) for name in NAMED if os.environ.get(name)]
    click.echo(text_of(environment=environment), nl=False)
