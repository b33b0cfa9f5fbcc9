"""`moiety inspect`: all that is known of one program."""

from __future__ import annotations

from typing import Any, Final

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.system.paths import find
from moiety.cli.lazy_completion import completed
from moiety.cli.output import STRUCTURED, builtins, emit, seconds, size, yaml_output_option
from moiety.cli.oversized import hints
from moiety.cli.selection import processes_of
from moiety.model.format import format_fraction, plain


@click.command()
@click.argument("target", metavar="TENANT|PID|NAME", shell_complete=completed("tenants"))
@yaml_output_option
def inspect(target: str, output: str) -> None:
    """Show all that is known of one program that shares the GPUs.

    A number means one process, a name or the id of a workload all of its processes. There is one
    section for each GPU that a process uses.
    """
    with call(find()) as agent:
        found = agent.ask(protocol.Ps(workloads=True), protocol.Processes)
        rows = processes_of(found.rows, target)
    if output in STRUCTURED:
        emit(rows, output)
        return
    click.echo("\n\n".join(_section(row) for row in rows))
    for line in hints(rows):
        click.echo(plain(line))


TITLES: Final = {
    "handoffs": "hand-offs",
    "handoffs_s": "handing off",
    "received_s": "GPU time",
    "cost_s": "others waited",
    "cost": "because",
    "waiting_s": "waiting for",
    "evicted_bytes": "moved to host",
    "restored_bytes": "moved back",
    "zero_bytes": "left as zeros",
    "host_bytes": "on the host",
    "peak_bytes": "largest resident",
    "pinned": "pinned by",
}
"""Names that differ from those of the fields."""
PARTS: Final = frozenset(("received", "guaranteed", "share_gpu", "share_gpu_limit"))
"""Fields that are parts of a GPU's time."""


def _section(row: ProcessRow) -> str:
    on = "no GPU" if row.gpu is None else f"GPU {row.gpu}"
    tenant = f"tenant {row.tenant}, " if row.tenant else ""
    lines = [f"{row.program} ({tenant}pid {row.pid}) on {on}"]
    fields = builtins(row)
    share = fields.pop("share")
    del share["priority"]  # the row has its name
    for name, value in (fields | {f"share_{key}": each for key, each in share.items()}).items():
        if name not in ("program", "tenant", "pid", "gpu"):
            lines.append(f"  {_title(name).ljust(20)} {plain(_text(name, value))}".rstrip())
    return "\n".join(lines)


def _title(name: str) -> str:
    return TITLES.get(name) or name.removesuffix("_bytes").removesuffix("_s").replace("_", " ")


def _text(name: str, value: Any) -> str:
    """A value as people read it; "-" for nothing."""
    if value is None or value == "" or value == {}:
        return "-"
    if name.endswith("_bytes"):
        return size(value)
    if name.endswith("_s"):
        return seconds(value)
    if name.endswith("_part") or name in PARTS:
        return format_fraction(round(value, 4))
    if name == "pins":
        return ", ".join(f"{key}: {size(each)}" for key, each in value.items())
    if isinstance(value, dict):
        return ", ".join(f"{key}: {each}" for key, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
