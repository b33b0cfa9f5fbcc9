"""`moiety agent`: start, stop and look after the daemon."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import (
    Call,
    arguments_from_environment,
    call,
    environment_of_agents,
)
from moiety.agent.control.client import start as start_agent
from moiety.agent.control.options import FLAGS, parse
from moiety.agent.system.paths import find
from moiety.cli.lazy_completion import completed_as
from moiety.cli.output import emit_json, fold, output_option
from moiety.cli.recording import record, replay
from moiety.cli.status import agent_line
from moiety.model import errors

STOP_TIMEOUT_S = 30.0
EXIT_NO_AGENT = 3


@click.group()
def agent() -> None:
    """Start, stop or look at the daemon that owns the GPUs."""


agent.add_command(record)
agent.add_command(replay)


def agent_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every option that an agent knows, from its own table."""
    for flag in reversed(FLAGS):
        switch: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if flag.is_switch else {}
        named = click.option(
            str(flag.flag),
            flag.field,
            metavar=flag.metavar,
            help=flag.help,
            shell_complete=completed_as(flag),
            **switch,
        )
        command = named(command)
    return command


system_option = click.option("--system", is_flag=True, help="The agent of all users.")


@agent.command()
@click.option("--foreground", is_flag=True, help="Stay in this terminal; Ctrl-C ends it.")
@system_option
@agent_options
@output_option
def start(foreground: bool, system: bool, output: str, **given: str | None) -> None:
    """Start the agent of this user, in the background unless told otherwise.

    With --system it serves all users of this machine, in /run/moiety.
    """
    arguments = arguments_from_environment()
    if system:
        arguments += ["--system"]
    for flag in FLAGS:
        text = given[flag.field]
        if text is not None:
            arguments += [str(flag.flag), text]
    try:
        parse(arguments)
    except ValueError as error:
        raise errors.BadArgument.of(error, "moiety agent start --help") from None
    if foreground:
        from moiety.agent.process import main

        sys.exit(main(arguments, foreground=True))
    directory = find("system" if "--system" in arguments else "own")
    try:
        with Call(directory) as running:
            raise errors.AgentAlreadyRunning(
                directory=str(directory.path), owner=f"pid {running.agent.pid}"
            )
    except errors.NoAgent:
        pass
    start_agent(directory, arguments)
    with Call(directory) as running:
        here = running.agent
    if output == "json":
        emit_json({"pid": here.pid, "version": here.product, "directory": str(directory.path)})
    else:
        click.echo(f"agent {here.product} runs as pid {here.pid}, {directory.path}")


@agent.command()
@click.option("--user", help="Run it as this user instead of root.")
@agent_options
def unit(user: str | None, **given: str | None) -> None:
    """Print a systemd unit for an agent that serves all users of this machine."""
    from moiety.agent.system.systemd_unit import unit as text_of
    from moiety.agent.system.users import is_listed

    arguments = [
        part for flag in FLAGS if (text := given[flag.field]) for part in (str(flag.flag), text)
    ]
    try:
        parse(arguments)
    except ValueError as error:
        raise errors.BadArgument.of(error, "moiety agent unit --help") from None
    named = ("MOIETY_CONFIG", "MOIETY_SIMGPU", "MOIETY_NATIVE", "MOIETY_SIMGPU_STATE", "PYTHONPATH")
    here = environment_of_agents()
    environment = [(name, here[name]) for name in named if os.environ.get(name)]
    try:
        text = text_of(arguments, user=user, environment=environment)
    except ValueError as error:
        raise errors.BadArgument(f"--user: {error}", "one that `getent passwd` lists") from None
    if user is not None and not is_listed(user):
        click.echo(f"moiety: there is no user {user} here yet: useradd --system {user}", err=True)
    click.echo(text, nl=False)


@agent.command()
@click.option("--force", is_flag=True, help="Even if programs are connected; they keep running.")
@system_option
@output_option
def stop(force: bool, system: bool, output: str) -> None:
    """Stop the agent; refused while programs share the GPUs, unless forced."""
    directory = find("system" if system else None)
    try:
        with call(directory) as running:
            pid = running.agent.pid
            running.ask(protocol.Stop(force=force), protocol.Done)
    except errors.NoAgent:
        if output == "json":
            emit_json({"pid": None})
        else:
            click.echo("no agent is running")
        return
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while directory.lock.exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    if directory.lock.exists():
        raise errors.AgentSilent(problem=f"told to stop, pid {pid} is still there")
    if output == "json":
        emit_json({"pid": pid})
    else:
        click.echo(f"agent {pid} has stopped")


@agent.command()
@system_option
@output_option
def restart(system: bool, output: str) -> None:
    """Put an agent of this version in the place of the one that runs; programs run on.

    It keeps the options that the last one was started with, and what was set since. A program that
    holds a GPU runs on meanwhile, the others wait.
    """
    from moiety.agent.control.restart import restart as restart_agent

    directory = find("system" if system else None)
    done = restart_agent(directory)
    if output == "json":
        emit_json(
            {
                "pid": done.pid,
                "version": done.version,
                "before": done.before or None,
                "pause_s": round(done.pause_s, 4),
            }
        )
        return
    what = f"agent {done.version} runs as pid {done.pid}"
    before = f" in the place of {done.before}" if done.before else ""
    click.echo(f"{what}{before}, after a pause of {done.pause_s:.1f} s")


@agent.command()
@system_option
@output_option
def reload(system: bool, output: str) -> None:
    """Have the agent read its configuration again, while all runs on."""
    with call(find("system" if system else None)) as running:
        done = running.ask(protocol.Reload(), protocol.Reloaded)
    if output == "json":
        emit_json({"pid": running.agent.pid, "later": done.later})
        return
    click.echo(f"agent {running.agent.pid} goes by what is written now")
    if done.later:
        click.echo(f"for the next agent only: {', '.join(done.later)}", err=True)


@agent.command()
@system_option
@output_option
def status(output: str, system: bool) -> None:
    """Tell whether an agent runs; exit code 3 if not."""
    try:
        with call(find("system" if system else None)) as running:
            found = running.ask(protocol.Status(), protocol.NodeStatus)
    except errors.NoAgent:
        if output == "json":
            emit_json(None)
        else:
            click.echo("no agent is running")
        sys.exit(EXIT_NO_AGENT)
    if output == "json":
        emit_json(found)
    else:
        click.echo(fold(agent_line(found), 2))
