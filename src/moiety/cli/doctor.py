"""`moiety doctor`: is this machine ready, and what to do if not."""

from __future__ import annotations

import sys

import click

from moiety.cli.finding import Finding
from moiety.cli.findings import CHECKS
from moiety.cli.show import colour_wanted, emit_json, output_option

COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command()
@output_option
def doctor(output: str) -> None:
    """Find out whether this machine is ready; exit code 1 if something is bad."""
    found = [finding for check in CHECKS for finding in check()]
    if output == "json":
        emit_json(found)
    else:
        width = max(len(finding.about) for finding in found)
        for finding in found:
            click.echo(line(finding, width))
    sys.exit(any(finding.level == "bad" for finding in found))


def line(finding: Finding, width: int) -> str:
    """A finding in one line, and what to do about it in a second."""
    mark = f"{finding.level:4}"
    if colour_wanted():
        mark = click.style(mark, fg=COLOURS[finding.level])
    text = f"{mark}  {finding.about.ljust(width)}  {finding.text}"
    if finding.level != "ok" and finding.hint:
        text += f"\n{' ' * (width + 8)}{finding.hint}"
    return text
