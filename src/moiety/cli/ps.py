"""`moiety ps`: who shares the GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import find
from moiety.cli.output import (
    STRUCTURED,
    Duration,
    count,
    emit,
    fold,
    part,
    seconds,
    size,
    table,
    wide_output_option,
)
from moiety.cli.oversized import hints
from moiety.cli.selection import ORDERS, of_user, ordered
from moiety.cli.status import queue_lines
from moiety.model.errors import NoAgent, UserUnknown
from moiety.model.format import plain


def _cost(row: ProcessRow) -> str:
    return seconds(row.cost_s) if row.cost_s else "-"


def _reason(row: ProcessRow) -> str:
    reason = row.reason
    if row.pinned:
        reason = f"{reason}; " * bool(reason) + f"cannot leave the GPU ({row.pinned})"
    if row.waiting_s is not None:
        reason = f"{reason} (for {seconds(row.waiting_s)})".strip()
    return reason


def _pinned(row: ProcessRow) -> str:
    """What of it stays on the GPU, and by which calls."""
    if row.pinned:
        return f"all ({row.pinned})"
    if not row.pinned_bytes:
        return "-"
    calls = ", ".join(row.pins)
    return f"{size(row.pinned_bytes)} ({calls})" if calls else size(row.pinned_bytes)


def _unknown(row: ProcessRow) -> str:
    if not row.unknown_calls:
        return ""
    first, *others = row.unknown or ["?"]
    more = f" and {len(others)} more" if others else ""
    return f"{first}{more} ({count(row.unknown_calls, 'call')})"


NO_AGENT: Final = "no agent is running, so no GPU is shared"
WATCH_S: Final = 2.0
COLUMNS: Final[dict[str, Callable[[ProcessRow], str]]] = {
    "TENANT": lambda row: str(row.tenant or "-"),
    "PID": lambda row: str(row.pid or "-"),
    "PROGRAM": lambda row: row.program or "-",
    "GPU": lambda row: "-" if row.gpu is None else str(row.gpu),
    "STATE": lambda row: row.state,
    "SHARE": lambda row: row.share.of_time,
    "RECEIVED": lambda row: part(row.received),
    "ALLOCATED": lambda row: size(row.allocated_bytes),
    "RESIDENT": lambda row: size(row.resident_bytes),
    "LIMIT": lambda row: size(row.limit_bytes),
    "EVICTED": lambda row: size(row.evicted_bytes),
    "HAND-OFFS": lambda row: str(row.handoffs),
    "WAITED": lambda row: seconds(row.waited_s),
    "REASON": _reason,
}
WIDE: Final[dict[str, Callable[[ProcessRow], str]]] = {
    "GUARANTEED": lambda row: part(row.guaranteed) if row.guaranteed else "-",
    "CLASS": lambda row: "latency" if row.share.latency else row.priority,
    "MODE": lambda row: row.share.mode,
    "KEPT": lambda row: size(row.share.memory_bytes or None),
    "PEAK": lambda row: size(row.peak_bytes),
    "ON-HOST": lambda row: size(row.host_bytes),
    "RESIDUE": lambda row: size(row.residue_bytes + row.pinned_bytes),
    "PINNED": _pinned,
    "HANDING-OFF": lambda row: seconds(row.handoffs_s),
    "GPU-TIME": lambda row: seconds(row.received_s),
    "WORKLOAD": lambda row: row.workload or "-",
    "GANG": lambda row: row.gang or "-",
    "USER": lambda row: row.user or "-",
    "POD": lambda row: row.labels.get("pod") or row.pod or "-",
    "IDLE": lambda row: seconds(row.idle_s) if row.idle_s else "-",
    "COST": _cost,
    "UNKNOWN": _unknown,
}
"""Columns that -o wide adds before the reason."""
CONTAINED: Final[dict[str, Callable[[ProcessRow], str]]] = {
    "CONTAINER": lambda row: row.container or "-",
}
"""Columns that are added if a program runs in a container."""
LESS: Final = ("HAND-OFFS", "LIMIT", "EVICTED", "WAITED", "RECEIVED", "KEPT", "RESIDUE", "USER")
"""Columns that a narrow terminal leaves out, in this order."""
IDLE: Final = (
    "TENANT",
    "PID",
    "PROGRAM",
    "USER",
    "GPU",
    "IDLE",
    "SHARE",
    "ALLOCATED",
    "RESIDENT",
    "RESIDUE",
    "KEPT",
)
"""The columns of --idle, whose rows are sorted by the longest time."""


@click.command()
@click.option(
    "-a",
    "--all",
    "is_all",
    is_flag=True,
    help="Also programs that use no GPU yet, and programs outside moiety.",
)
@wide_output_option
@click.option(
    "--idle",
    is_flag=False,
    flag_value="10min",
    type=Duration(),
    metavar="TIME",
    help="Only who has done nothing on a GPU so long [10min], and what it holds.",
)
@click.option("--user", help="Only programs of this user, by name or number.")
@click.option("--sort", "order", type=click.Choice(list(ORDERS)), help="Amounts largest first.")
@click.option("-q", "--quiet", is_flag=True, help="Only the tenants' numbers, one a line.")
@click.option(
    "-w", "--watch", is_flag=True, help=f"Show it again every {WATCH_S:.0f} s, until Ctrl-C."
)
def ps(
    is_all: bool,
    output: str,
    idle: float | None,
    user: str | None,
    order: str | None,
    quiet: bool,
    watch: bool,
) -> None:
    """List the programs that share the GPUs.

    RECEIVED is the part of the GPU's time that the program's work had over the last seconds;
    EVICTED what was moved out since the program started, and WAITED how long its threads stood
    still for a turn. Where programs take turns, hand-offs are in no program's RECEIVED, so all
    together have less than 100 %. A terminal that is too narrow shows less of it.

    With -a, a program is "starting" until it has its first GPU, and "off-gpu" while none of its
    processes uses one; "outside" is a program that uses a GPU without moiety, with the memory that
    NVML reports.

    With -o wide, GPU-TIME is what it had in its whole life, with the hand-offs that it caused
    (HANDING-OFF); PEAK is the most that was on the GPU at one time, and COST how long others waited
    within the last minute because it gave way late; programs that never used half of what they ask
    for are named.
    """
    while (found := _ask(is_all=is_all)) is not None:
        rows = of_user(found.rows, user)
        if user is not None and not rows:
            _must_be_known(user)
        if idle is not None:
            rows = sorted((r for r in rows if r.idle_s >= idle), key=lambda row: -row.idle_s)
        rows = ordered(rows, order)
        if watch:
            click.clear()
        if quiet:
            click.echo("".join(f"{tenant}\n" for tenant in dict.fromkeys(_numbers(rows))), nl=False)
        elif output in STRUCTURED:
            emit(rows, output)
        else:
            click.echo(_table(rows, output, is_idle=idle is not None, is_all=is_all))
            lines = [] if idle is not None or user else list(queue_lines(found.queue))
            lines += hints(rows) if output == "wide" else []
            for line in [*lines, *[found.unseen] * bool(found.unseen)]:
                click.echo(fold(plain(line), 2))
        if not watch:
            return
        time.sleep(WATCH_S)
    if not quiet:
        if output in STRUCTURED:
            emit([], output)
        else:
            click.echo(NO_AGENT)


def _must_be_known(user: str) -> None:
    """Raise UserUnknown for a name that the system's tables do not have either."""
    from moiety.agent.system.users import is_listed

    if not (user.isdecimal() or is_listed(user)):
        raise UserUnknown(user)


def _ask(*, is_all: bool) -> protocol.Processes | None:
    """What the agent says; without an agent what NVML says, if it is to be asked, else None."""
    try:
        with call(find()) as agent:
            return agent.ask(protocol.Ps(is_all, is_all), protocol.Processes)
    except NoAgent:
        return _without_agent() if is_all else None


def _without_agent() -> protocol.Processes:
    """The programs on the GPUs, none of which shares them."""
    from moiety.agent.control.other_rows import BLIND, outside_rows
    from moiety.agent.monitor.process_finder import ProcessFinder
    from moiety.agent.system.users import WAIT_S
    from moiety.cli.doctor.agents import recorded
    from moiety.cli.doctor.gpus import opened

    try:
        with opened() as devices:
            finder = ProcessFinder(devices, named_s=WAIT_S)
            gpus = [device.index for device in devices.inventory()]
            found = finder.find(gpus, time.time_ns() // 1000)
    except Exception as error:  # NVML raises anything
        return protocol.Processes([], f"{NO_AGENT}; NVML cannot be asked who uses them: {error}")
    rows, unseen = outside_rows(found, recorded(find()).__contains__)
    if finder.is_blind:
        rows, unseen = [], BLIND
    return protocol.Processes(rows, "; ".join([NO_AGENT, *[unseen] * bool(unseen)]))


def _numbers(rows: list[ProcessRow]) -> list[int]:
    return [row.tenant for row in rows if row.tenant]


def _table(rows: list[ProcessRow], output: str, *, is_idle: bool, is_all: bool) -> str:
    titles = list(IDLE if is_idle else COLUMNS)
    if any(row.container for row in rows):
        titles[3:3] = CONTAINED
    if output == "wide" and not is_idle:
        titles[-1:-1] = WIDE
    elif (is_all or len({row.uid for row in rows}) > 1) and not is_idle:
        titles.insert(2, "USER")
    cells = COLUMNS | WIDE | CONTAINED
    less = () if output == "wide" else LESS
    return table(titles, [[cells[title](row) for title in titles] for row in rows], less)
