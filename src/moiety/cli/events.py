"""`moiety events`: what happened on this node that somebody may ask about."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import datetime

import click
import msgspec

from moiety.agent import requests
from moiety.agent.caller import Call, call
from moiety.agent.directory import Directory, find
from moiety.agent.journal import REASONS, read
from moiety.cli.show import Duration, colour_wanted
from moiety.model import errors

WAIT_S = 5.0
"""for the next event, before asking again"""


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--since", type=Duration(), metavar="TIME", help="Only of so long ago, such as 1h.")
@click.option("--warnings", is_flag=True, help="Only what is worth a warning.")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=click.Choice(list(REASONS), case_sensitive=False),
    metavar="REASON",
    help="Only these, such as Refused or Killed; may be given several times.",
)
@click.option(
    "--of", "target", metavar="TENANT", help="Only of one program: its number, pid or name."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or one JSON document on each line.",
)
def events(
    follow: bool,
    since: float | None,
    warnings: bool,
    reasons: tuple[str, ...],
    target: str | None,
    output: str,
) -> None:
    """Tell what happened: who was refused, moved out, overdue or ended, and why.

    Without an agent, what the last ones wrote down is told.
    """
    since_s = time.time() - since if since else 0.0

    def wanted(event: requests.Event) -> bool:
        return (
            event.at_s >= since_s
            and (not warnings or event.severity == "warning")
            and (not reasons or event.reason in reasons)
            and (target is None or target in (str(event.tenant), str(event.pid), event.program))
        )

    show = _as_json if output == "json" else _as_text
    directory = find()
    try:
        for event in _follow(directory) if follow else _all(directory):
            if wanted(event):
                click.echo(show(event))
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass


def _all(directory: Directory) -> Iterator[requests.Event]:
    try:
        with call(directory) as agent:
            yield from _pages(agent, 0, 0.0)
    except errors.NoAgent:
        yield from read(directory.events)


def _follow(directory: Directory) -> Iterator[requests.Event]:
    """Events of this agent and of those that come after it, once each; ends with the last agent."""
    after = 0
    while True:
        with call(directory) as agent:  # raises NoAgent if none is coming back
            try:
                while True:
                    for event in _pages(agent, after, WAIT_S):
                        after = event.number
                        yield event
            except errors.AgentSilent:
                continue  # it ended; another one may be on its way


def _pages(agent: Call, after: int, wait_s: float) -> Iterator[requests.Event]:
    more = True
    while more:
        asked = requests.Events(after=after, wait_s=wait_s)
        page = agent.ask(asked, requests.Happened)
        yield from page.events
        more = page.more
        after = page.events[-1].number if page.events else after


def _as_json(event: requests.Event) -> str:
    return msgspec.json.encode(event).decode()


def _as_text(event: requests.Event) -> str:
    at = datetime.fromtimestamp(event.at_s).astimezone()
    who = f"{event.program} (pid {event.pid})" if event.pid is not None else "agent"
    where = f" on GPU {event.gpu}" if event.gpu is not None else ""
    text = f": {event.message}" if event.message else ""
    reason = f"{event.reason:<15}"
    if event.severity == "warning" and colour_wanted():
        reason = click.style(reason, fg="yellow")
    return f"{at:%Y-%m-%d %H:%M:%S}  {reason}  {who}{where}{text}"
