"""`moiety status`: the GPUs of this machine and who holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import GpuRow, WaiterRow
from moiety.agent.system.paths import find
from moiety.cli.output import (
    STRUCTURED,
    count,
    emit,
    fold,
    seconds,
    size,
    table,
    wide_output_option,
)
from moiety.model.errors import MoietyError, NoAgent
from moiety.model.format import format_fraction, plain
from moiety.top.history import drawn

TITLES = (
    "GPU",
    "NAME",
    "TOTAL",
    "SHARED",
    "RESIDENT",
    "FREE",
    "USED",
    "BUSY",
    "TEMP",
    "POWER",
    "HOLDERS",
    "WAITING",
)
LESS = ("USED", "TOTAL", "POWER", "TEMP", "BUSY")
"""Columns that a narrow terminal leaves out, in this order."""
WIDE: Final = ("CLOCK", "MEMORY-CLOCK", "ECC", "SLOWED-BY")
"""Columns that -o wide adds at the end; ECC is corrected/uncorrected errors."""


@click.command()
@wide_output_option
@click.option("--history", is_flag=True, help="Draw the last hour, a bar for each minute.")
def status(output: str, history: bool) -> None:
    """Show the GPUs, their memory and their holders.

    With -o wide, ECC is the number of corrected and uncorrected errors since the driver was loaded,
    and SLOWED-BY why the clocks are lowered. "-" is a value that the GPU does not have.
    """
    try:
        with call(find()) as agent:
            found = agent.ask(protocol.Status(), protocol.NodeStatus)
    except NoAgent:
        if output in STRUCTURED:
            emit(None, output)
        else:
            click.echo("no agent is running, so no GPU is shared")
            if line := pool_line():  # its agent ends while no work runs
                click.echo(fold(plain(f"{line}; it starts an agent when work begins"), 2))
        return
    if output in STRUCTURED:
        emit(found, output)
        return
    click.echo(fold(agent_line(found), 2))
    wide = output == "wide"
    titles = [*TITLES, *WIDE] if wide else TITLES
    rows = [[*_cells(row), *(_wide_cells(row) if wide else ())] for row in found.gpus]
    click.echo(table(titles, rows, () if wide else LESS))
    for row in found.gpus if history else ():
        for line in drawn(row):
            click.echo(line)
    for line in lost_lines(found.gpus):
        click.echo(fold(plain(line), 2))
    if drained := [str(row.gpu) for row in found.gpus if row.drained]:
        click.echo(f"drained, so without new programs: GPU {', '.join(drained)}")
    if suspended := list(dict.fromkeys(tenant for row in found.gpus for tenant in row.suspended)):
        who = f"tenant{'s' * (len(suspended) > 1)} {', '.join(map(str, suspended))}"
        click.echo(f"suspended, so without turns: {who}")
    if parts := [f"{name} {format_fraction(part)}" for name, part in found.guarantees.items()]:
        click.echo(fold(plain(f"guaranteed of each GPU's time: {', '.join(parts)}"), 2))
    for line in queue_lines(found.queue):
        click.echo(fold(plain(line), 2))
    for note in found.notes:
        click.echo(fold(plain(note), 2))
    if line := pool_line():
        click.echo(fold(plain(line), 2))


def pool_line() -> str:
    """The pool of this agent in one line; empty if there is none, or it does not answer."""
    from moiety.pool.client import PoolClient  # seldom needed
    from moiety.pool.model.records import PoolStatus

    pool = PoolClient()
    try:
        status = pool.get("/status", PoolStatus)
    except MoietyError:
        return ""
    finally:
        pool.close()
    waiting = status.counts.get("pending", 0) + status.counts.get("held", 0)
    running = sum(status.counts.values()) - waiting
    return f"pool: {running} running, {waiting} waiting; workloads have {status.isolation}"


def agent_line(found: protocol.NodeStatus) -> str:
    """The agent in one line."""
    simulated = " (simulated GPUs)" if found.simulated else ""
    metrics = f"; metrics at {found.metrics}" if found.metrics else ""
    settled = "" if found.settled else ", waiting for running programs to reconnect"
    whose = f"agent of all users, as {found.user}," if found.shared else "agent"
    return (
        f"{whose} {found.product}, pid {found.pid}, up {seconds(found.up_s)}{settled}; "
        f"driver {found.driver_version or 'unknown'}{simulated}; "
        f"{count(found.tenants, 'tenant')} in {count(found.workloads, 'workload')}; "
        f"{size(found.arena_bytes)} of host memory for evicted data "
        f"({size(found.arena_ready_bytes)} ready, {size(found.arena_used_bytes)} used)"
        f"{metrics}"
    )


def lost_lines(rows: Sequence[GpuRow]) -> list[str]:
    """One line for each GPU that is lost, with the reason."""
    return [f"{row.lost}; it gets no programs" for row in rows if row.lost]


def queue_lines(rows: Sequence[WaiterRow]) -> list[str]:
    """One line for each command that waits for GPUs with room."""
    return [
        f"waits for {count(row.gpus, 'GPU')}, place {row.place}: {row.program or '-'} "
        f"(pid {row.pid or '-'}, {row.user}) for {seconds(row.waited_s)}"
        + (f": {row.reason}" if row.reason else "")
        for row in rows
    ]


def power(row: GpuRow) -> str:
    """The power and its limit in watts, such as 62/400 W."""
    if row.sensors.power_w is None:
        return "-"
    limit = "" if row.sensors.power_limit_w is None else f"/{row.sensors.power_limit_w:.0f}"
    return f"{row.sensors.power_w:.0f}{limit} W"


def _wide_cells(row: GpuRow) -> list[str]:
    clocks = (row.sensors.sm_clock_mhz, row.sensors.memory_clock_mhz)
    errors = (row.sensors.ecc_corrected, row.sensors.ecc_uncorrected)
    ecc = "-" if errors == (None, None) else "/".join("-" if e is None else str(e) for e in errors)
    slowed = "-" if row.sensors.clock_events is None else ", ".join(row.slowed_by) or "nothing"
    return [*("-" if clock is None else f"{clock} MHz" for clock in clocks), ecc, slowed]


def _cells(row: GpuRow) -> list[str]:
    return [
        str(row.gpu),
        row.name,
        size(row.total_bytes),
        size(row.capacity_bytes),
        size(row.resident_bytes),
        size(max(0, row.free_bytes)),
        size(row.used_bytes),
        "-" if row.utilisation is None else f"{row.utilisation:.0%}",
        "-" if row.sensors.temperature_c is None else f"{row.sensors.temperature_c} C",
        power(row),
        ",".join(map(str, row.holders)) or "-",
        ",".join(map(str, row.waiting)) or "-",
    ]
