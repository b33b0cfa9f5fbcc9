"""`moiety wait`: wait until a program that shares the GPUs has ended."""

from __future__ import annotations

import select
import signal
import sys
import time
from typing import Any, Final

import click

from moiety.agent.control.rows import ProcessRow
from moiety.cli import pool_wait
from moiety.cli.exit_status import exit_code
from moiety.cli.lazy_completion import completed
from moiety.cli.living import living
from moiety.cli.output import Duration, emit_json, output_option
from moiety.model.errors import StillRunning
from moiety.model.format import format_duration
from moiety.pool.model.states import WorkState

POLL_MAX_S: Final = 86400.0
"""The longest single wait of the kernel; a longer timeout is several."""


@click.command()
@click.argument("target", metavar="TENANT|PID|NAME", shell_complete=completed("tenants"))
@click.option("--timeout", type=Duration(), help="Give up after this time.")
@output_option
def wait(target: str, timeout: float | None, output: str) -> None:
    """Wait until a program that shares the GPUs has ended.

    A number means one process, a name or the id of a workload all of its processes that use a GPU
    now. The kernel reports the end; the agent may end meanwhile. The exit code of a program is
    shown if the kernel tells it (Linux 6.15 and later); that of this command is 0 in any case.

    While a pool is up, its workloads are meant first, by number or name; then the exit code is 1 if
    the workload did not end well.
    """
    if (work := pool_wait.wait(target, timeout)) is not None:
        pool_wait.show(target, work, output)
        sys.exit(0 if work.state is WorkState.DONE else 1)
    end_s = None if timeout is None else time.monotonic() + timeout
    with living(target) as processes:
        left, codes = dict(processes), dict[int, int | None]()
        poll = select.poll()
        for pidfd in left:
            poll.register(pidfd, select.POLLIN)
        while left:
            rest_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            over = poll.poll(None if rest_s is None else min(rest_s, POLL_MAX_S) * 1000)
            for pidfd, _ in over:
                poll.unregister(pidfd)
                row = left.pop(pidfd)
                codes[pidfd] = exit_code(pidfd, row.pid)
                if output != "json":
                    click.echo(ended(row, codes[pidfd]))
            if not over and rest_s == 0.0:
                row = next(iter(left.values()))
                raise StillRunning(f"{row.program} (pid {row.pid})", format_duration(timeout or 0))
        if output == "json":
            emit_json([_fields(row, codes[pidfd]) for pidfd, row in processes.items()])


def ended(row: ProcessRow, code: int | None) -> str:
    """How a program ended, in words; `code` as of `exit_code`."""
    who = f"{row.program} (pid {row.pid})"
    if code is None:
        return f"{who} has ended; only the program that started it knows the exit code"
    return f"{who} was ended by {_name(-code)}" if code < 0 else f"{who} ended with code {code}"


def _fields(row: ProcessRow, code: int | None) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "pid": row.pid,
        "program": row.program,
        "exit_code": code if code is not None and code >= 0 else None,
        "signal": _name(-code) if code is not None and code < 0 else None,
    }


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"
