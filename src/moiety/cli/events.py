"""`moiety events`: the refusals, evictions, warnings and ends of programs on this node."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.client import Call, call
from moiety.agent.core.event_file import read
from moiety.agent.core.journal_events import REASONS, Event
from moiety.agent.system.paths import Directory, find
from moiety.cli.lazy_completion import completed
from moiety.cli.output import Duration, colour_wanted, document
from moiety.model import errors

WAIT_S = 5.0
"""How long one request waits for the next event."""


class ReasonName(click.Choice[str]):
    """A reason of events, in letters of any case; a refusal names them as they are shown."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The reason as events have it."""
        found = next((each for each in REASONS if each.lower() == str(value).lower()), None)
        if found is None:
            self.fail(f"{value!r} is not one of {', '.join(REASONS)}", param, ctx)
        return found


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option(
    "--since", type=Duration(), metavar="TIME", help="Only events of the last TIME, such as 1h."
)
@click.option("--warnings", is_flag=True, help="Only what is worth a warning.")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=ReasonName(REASONS),
    metavar="REASON",
    help="Only these, such as Refused or Killed; may be given several times.",
)
@click.option(
    "--of",
    "target",
    metavar="TENANT",
    shell_complete=completed("tenants"),
    help="Only of one program: its number, pid or name.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="For people, one JSON document on each line, or one YAML document for each event.",
)
def events(
    follow: bool,
    since: float | None,
    warnings: bool,
    reasons: tuple[str, ...],
    target: str | None,
    output: str,
) -> None:
    """Tell what happened: which programs were refused, evicted, overdue or ended, and why.

    Without an agent, show the events that earlier agents wrote down.
    """
    since_s = time.time() - since if since else 0.0

    def wanted(event: Event) -> bool:
        return (
            event.at_s >= since_s
            and (not warnings or event.severity == "warning")
            and (not reasons or event.reason in reasons)
            and (target is None or target in (str(event.tenant), str(event.pid), event.program))
        )

    show = {"text": _as_text, "json": _as_json, "yaml": _as_yaml}[output]
    directory = find()
    try:
        for event in _follow(directory) if follow else known(directory):
            if wanted(event):
                click.echo(show(event))
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass


def known(directory: Directory) -> Iterator[Event]:
    """The events that the agent remembers; without an agent, those in the file."""
    try:
        with call(directory) as agent:
            yield from Pages(agent, 0).read(0.0)
    except errors.NoAgent:
        yield from read(directory.events)


def _follow(directory: Directory) -> Iterator[Event]:
    """Events of this agent and of later agents, once each; ends with the last agent."""
    after = 0
    while True:
        with call(directory) as agent:  # raises NoAgent if no agent starts
            pages = Pages(agent, after)
            try:
                while True:
                    yield from pages.read(WAIT_S)
            except errors.AgentSilent:
                after = pages.after
                continue  # the agent ended; another one may start


class Pages:
    """The events after a number, page by page, as far as this user may see them."""

    def __init__(self, agent: Call, after: int) -> None:
        self._agent = agent
        self.after = after

    def read(self, wait_s: float) -> Iterator[Event]:
        """Events up to the last page that exists now; waits `wait_s` for a first event."""
        more = True
        while more:
            asked = protocol.Events(after=self.after, wait_s=wait_s)
            page = self._agent.ask(asked, protocol.Happened)
            yield from page.events
            self.after = max(self.after, page.read_to)
            more = page.more


def _as_json(event: Event) -> str:
    return msgspec.json.encode(event).decode()


def _as_yaml(event: Event) -> str:
    return document(event, "yaml").removesuffix("\n")


def _as_text(event: Event) -> str:
    at = datetime.fromtimestamp(event.at_s).astimezone()
    labels = event.labels
    pod = f"pod {labels.get('namespace', '')}/{labels['pod']}" if "pod" in labels else ""
    who = pod or "agent"
    if event.pid is not None:
        who = f"{event.program} (pid {event.pid}{f', {pod}' * bool(pod)})"
    where = f" on GPU {event.gpu}" if event.gpu is not None else ""
    text = f": {event.message}" if event.message else ""
    reason = f"{event.reason:<15}"
    if event.severity == "warning" and colour_wanted():
        reason = click.style(reason, fg="yellow")
    return f"{at:%Y-%m-%d %H:%M:%S}  {reason}  {who}{where}{text}"
