"""`moiety watch`: who uses the GPUs beside moiety, and what is done about it."""

from __future__ import annotations

from typing import Any

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.rows import OffenceRow, StrangerRow
from moiety.agent.system.paths import find
from moiety.cli.output import emit_json, output_option, part, seconds, size, table
from moiety.config.table import of_section
from moiety.model.errors import BadArgument, NoAgent

STRANGERS = ("PID", "USER", "PROGRAM", "GPU", "MEMORY", "BUSY", "SINCE", "CONTAINER", "EXEMPT")
OFFENCES = ("PID", "USER", "PROGRAM", "OFFENCE", "SINCE", "DONE", "NEXT", "WHAT")
PLANNED = ("AFTER", "WHAT", "PROCESS", "WHY")
TRIED = ("unregistered", "limit", "lease", "exempt", "slack")
"""Settings of [watch] that can be tried here."""


def _trials(command: Any) -> Any:
    for setting in reversed(of_section("watch")):
        if setting.key in TRIED:
            text = f"With --dry-run: {setting.help}"
            command = click.option(
                f"--{setting.key}", setting.key, metavar=setting.metavar, help=text
            )(command)
    return command


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the steps that would follow if this went on.")
@_trials
@output_option
def watch(dry_run: bool, output: str, **said: str | None) -> None:
    """Show which processes use the GPUs without moiety, their offences, and what is done.

    The steps are settings of the agent (`moiety config show watch`). With --dry-run, other settings
    can be tried: nothing is done, and nothing is changed.
    """
    policy = {key: text for key, text in said.items() if text is not None}
    if policy and not dry_run:
        named = next(iter(policy))
        raise BadArgument(f"--{named} is only tried here", f"--dry-run --{named} {policy[named]}")
    try:
        with call(find()) as agent:
            seen = agent.ask(protocol.WatchRequest(policy, plan=dry_run), protocol.Watched)
    except NoAgent:
        if output == "json":
            emit_json(None)
        else:
            click.echo("no agent is running, so GPU use is not watched")
        return
    if output == "json":
        emit_json(seen)
        return
    for line in _told(seen, dry_run=dry_run):
        click.echo(line)


def _told(seen: protocol.Watched, *, dry_run: bool) -> list[str]:
    lines = []
    if seen.is_blind:
        lines.append(
            "the agent is not in the host's PID namespace, so it cannot tell who uses the GPUs"
        )
    elif not seen.policy or seen.policy["every"] == "0":
        lines.append("the agent does not watch ([watch] every)")
    elif not seen.strangers:
        lines.append("no process uses the GPUs without moiety")
    if seen.policy.get("dry-run") == "true" and not dry_run:
        lines.append("nothing is done, only said: the agent is told to ([watch] dry-run)")
    if seen.strangers:
        lines.append(table(STRANGERS, [_stranger(row) for row in seen.strangers]))
    if seen.offences:
        lines += ["", table(OFFENCES, [_offence(row) for row in seen.offences])]
    if dry_run:
        rows = [[seconds(row.after_s), row.deed, row.who, row.text] for row in seen.planned]
        lines += ["", table(PLANNED, rows) if rows else "nothing would be done"]
    return lines


def _stranger(row: StrangerRow) -> list[str]:
    where = f"{row.runtime} {row.container[:12]}".strip()
    return [
        str(row.pid),
        row.user,
        row.program,
        str(row.gpu),
        size(row.used_bytes),
        part(row.busy),
        seconds(row.since_s),
        f"{where} (pod {row.pod})" if row.pod else where or "-",
        row.exempt or "-",
    ]


def _offence(row: OffenceRow) -> list[str]:
    after = f"{row.next} in {seconds(row.next_s)}" if row.next else "-"
    return [
        str(row.pid),
        row.user,
        row.program,
        row.offence,
        seconds(row.since_s),
        ",".join(row.done) or "-",
        after,
        row.text,
    ]
