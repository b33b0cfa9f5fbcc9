"""`moiety attach`: follow a workload of the pool until it ends, or run a command beside it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from typing import Final, NoReturn

import click

from moiety.cli import logs, pool_wait
from moiety.model.errors import (
    BadArgument,
    NotAllowed,
    ProgramNotExecutable,
    ProgramNotFound,
    SystemRefusal,
    WorkStateWrong,
)
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.launch.attached import Attached
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ENDS, WorkState
from moiety.pool.paths import pool_paths
from moiety.pool.starter.records import ProcessIdentity, Started, read_started

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as a shell has it."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("target", metavar="ID|NAME")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--shell", is_flag=True, help="Run your shell there.")
def attach(target: str, command: tuple[str, ...], shell: bool) -> None:
    """Follow what a workload writes from now on, until it ends.

    Ctrl-C leaves the workload running. The exit code is 0 if it ended well, and else 1.

    With a command after `--`, or with --shell, that runs in the workload's share of its GPUs, with
    its environment and in its folder, as your own process: it goes on for as long as you let it,
    and ends no later than the workload's share. Only the workload's own user may do that.
    """
    if command and shell:
        raise BadArgument("a command and --shell are given", "one of the two")
    pool = PoolClient()
    row = pool.get(of(target), WorkRow)
    if command or shell:
        _run(pool, row, command or (os.environ.get("SHELL", "/bin/sh"),))
    try:
        _follow(pool, row)
    except KeyboardInterrupt:
        click.echo(
            f"\nworkload {row.shown_id} goes on; `moiety logs -f {row.shown_id}` shows the rest, "
            f"`moiety cancel {row.shown_id}` ends it",
            err=True,
        )
        sys.exit(INTERRUPTED)


def _follow(pool: PoolClient, row: WorkRow) -> NoReturn:
    """Print what it writes from now on, and how it ends."""
    if not row.stdout:
        raise NotAllowed(f"workload {row.shown_id} is of {row.user}", "one of your own")
    offset = os.path.getsize(row.stdout) if os.path.exists(row.stdout) else 0
    asked_s = time.monotonic()
    while row.state not in ENDS:
        offset = logs.copy(row.stdout, offset, is_needed=False)
        time.sleep(logs.LOOK_S)
        if time.monotonic() - asked_s >= logs.ASK_S:
            asked_s = time.monotonic()
            row = pool.get(of(row.shown_id), WorkRow)
    logs.copy(row.stdout, offset, is_needed=False)
    pool_wait.show(row.shown_id, row, "table")
    sys.exit(0 if row.state is WorkState.DONE else 1)


def _run(pool: PoolClient, row: WorkRow, command: tuple[str, ...]) -> NoReturn:
    """Become the command, in the workload's share, environment and folder."""
    if row.state is not WorkState.RUNNING:
        raise WorkStateWrong(
            f"workload {row.shown_id} is {row.state}: only beside one that runs, commands can run",
            f"`moiety attach {row.shown_id}` follows it",
        )
    found = Attached.of(_process_of(pool, row), row)
    try:
        os.chdir(found.folder)
    except OSError as error:
        raise SystemRefusal(error) from None
    try:
        os.execvpe(command[0], list(command), _with_terminal(found.environment, os.environ))
    except FileNotFoundError:
        raise ProgramNotFound(command[0]) from None
    except OSError as error:
        raise ProgramNotExecutable(command[0], error.strerror or "it cannot be run") from None


def _process_of(pool: PoolClient, row: WorkRow) -> ProcessIdentity:
    """Its main process: by its record in a pool of one's own, which others ask the server for."""
    with contextlib.suppress(OSError):
        started = read_started(pool_paths().of_workload(row.id))
        if isinstance(started, Started) and started.attempt == row.attempt:
            return started.child
    return pool.get(of(row.shown_id, "process"), ProcessIdentity)


def _with_terminal(environment: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The workload's environment, with what says which terminal this is."""
    return {**environment, **{name: own[name] for name in ("TERM", "COLORTERM") if name in own}}
