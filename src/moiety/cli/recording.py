"""`moiety agent record` and `moiety agent replay`: write an agent's decisions, and repeat them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import Call, call
from moiety.agent.system.paths import find
from moiety.cli.output import Duration, count, emit_json, output_option
from moiety.cli.trace import writing
from moiety.model.errors import RecordingMissing
from moiety.model.format import format_duration

if TYPE_CHECKING:
    from moiety.arbiter.replay import Difference
    from moiety.trace.event_recording import Fetched

EXIT_DIFFERENT = 1


@click.command()
@click.argument("file")
@click.option("--follow", type=Duration(), help="Record for this long; Ctrl-C ends it earlier.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--system", is_flag=True, help="The agent of all users.")
@output_option
def record(file: str, follow: float | None, force: bool, system: bool, output: str) -> None:
    """Write the agent's latest events and instructions, for `moiety agent replay`.

    The agent remembers the last minutes. Names of programs and gangs become numbers in FILE, and
    what `moiety doctor --bundle` leaves out is left out. `-` is stdout.
    """
    from moiety.cli.doctor.redact import Redactor
    from moiety.trace.event_recording import write

    directory = find("system" if system else None)
    with call(directory) as agent, writing(file, force=force) as sink:
        assert sink is not None
        fetched = recorded(agent, follow)
        written = write(sink, fetched, Redactor().text)
    if output == "json" and file != "-":
        emit_json({**dataclasses.asdict(written), "agent_ended": fetched.agent_ended})
        return
    click.echo(
        f"{count(written.events, 'event')} of {format_duration(round(written.seconds, 1))}, "
        f"{count(written.instructions, 'instruction')}",
        err=file == "-",
    )
    if fetched.agent_ended:
        click.echo("the agent ended before that", err=True)


def recorded(agent: Call, follow_s: float | None = None) -> Fetched:
    """The events that the agent remembers, and the events of the next `follow_s` seconds."""
    from moiety.trace.event_recording import Fetched

    def page(request: protocol.EventRecording) -> protocol.RecordingPage:
        return agent.ask(request, protocol.RecordingPage)

    fetched = Fetched()
    if follow_s:
        fetched.follow(page, follow_s)
    else:
        fetched.fetch(page)
    return fetched


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@output_option
def replay(file: Path, output: str) -> None:
    """Decide again what FILE tells, and compare each instruction.

    Exit code 1 if one is different; the first of them is shown. It needs no agent and no GPU.
    """
    from moiety.trace.event_recording import replay_file

    try:
        found = replay_file(file)
    except OSError as error:
        raise RecordingMissing(str(file), error.strerror or str(error)) from None
    if output == "json":
        emit_json(found)
    else:
        click.echo(
            f"{count(found.events, 'event')}, {count(found.instructions, 'instruction')}: "
            f"{'the same' if found.difference is None else 'not the same'}"
        )
        if found.difference is not None:
            click.echo(as_text(found.difference))
    if found.difference is not None:
        sys.exit(EXIT_DIFFERENT)


def as_text(difference: Difference) -> str:
    """The first difference, for people."""
    nothing = "nothing more"
    lines = [
        f"event {difference.number} at {difference.step.now_s:.6f} s: {difference.step.event}",
        f"  expected: {difference.expected or nothing}",
        f"  got:      {difference.error or difference.got or nothing}",
    ]
    if difference.error:
        lines[1] = "  expected: " + (", ".join(map(str, difference.step.instructions)) or nothing)
    return "\n".join(lines)
