"""`moiety wait`: wait until a program that shares the GPUs has ended."""

from __future__ import annotations

import select
import time
from typing import Final

import click

from moiety.cli.lazy_completion import completed
from moiety.cli.living import living
from moiety.cli.output import Duration, emit_json, output_option
from moiety.model.errors import StillRunning
from moiety.model.format import format_duration

POLL_MAX_S: Final = 86400.0
"""The longest single wait of the kernel; a longer timeout is several."""


@click.command()
@click.argument("target", metavar="TENANT|PID|NAME", shell_complete=completed("tenants"))
@click.option("--timeout", type=Duration(), help="Give up after this time.")
@output_option
def wait(target: str, timeout: float | None, output: str) -> None:
    """Wait until a program that shares the GPUs has ended.

    A number means one process, a name or the id of a workload all of its processes that use a GPU
    now. The kernel reports the end; the agent may end meanwhile. The exit code of the program is
    known only to the process that started it.
    """
    end_s = None if timeout is None else time.monotonic() + timeout
    with living(target) as processes:
        left = dict(processes)
        poll = select.poll()
        for pidfd in left:
            poll.register(pidfd, select.POLLIN)
        while left:
            rest_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            ended = poll.poll(None if rest_s is None else min(rest_s, POLL_MAX_S) * 1000)
            for pidfd, _ in ended:
                poll.unregister(pidfd)
                del left[pidfd]
            if not ended and rest_s == 0.0:
                row = next(iter(left.values()))
                raise StillRunning(f"{row.program} (pid {row.pid})", format_duration(timeout or 0))
        if output == "json":
            rows = processes.values()
            emit_json([{"tenant": r.tenant, "pid": r.pid, "program": r.program} for r in rows])
