"""`moiety down`: end the pool; what runs goes on."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from moiety.cli.output import count, emit_json, output_option
from moiety.model.errors import PoolSilent
from moiety.pool import client
from moiety.pool.machine import root_part

PATIENCE_S: Final = 20.0
LOOK_S: Final = 0.02


@click.command()
@output_option
def down(output: str) -> None:
    """End the pool. Workloads that run go on, and the next `moiety up` takes them over.

    Work that waits stays in the queue.
    """
    pool = client.PoolClient()
    try:
        found: dict[str, Any] = pool.post("/stop", dict[str, Any])
    finally:
        pool.close()
        if root_part.is_machines(pool.paths):  # also where the server was killed
            root_part.stop_starter(pool.paths)
    end_s = time.monotonic() + PATIENCE_S
    while client.is_up(pool.paths):
        if time.monotonic() > end_s:
            raise PoolSilent("it does not end", str(pool.paths.log))
        time.sleep(LOOK_S)
    running = int(found["running"])
    if output == "json":
        emit_json(found)
        return
    click.echo("the pool is down")
    if running:
        verb = "runs" if running == 1 else "run"
        click.echo(f"{count(running, 'workload')} {verb} on; `moiety up` takes over what is left")
