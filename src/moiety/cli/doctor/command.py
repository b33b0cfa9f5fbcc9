"""`moiety doctor`: is this machine ready, and what to do if not."""

from __future__ import annotations

import sys

import click

from moiety.cli.doctor.checks import CHECKS
from moiety.cli.doctor.finding import Finding
from moiety.cli.output import colour_wanted, emit_json, fold, output_option

COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command()
@click.option(
    "--bundle",
    "file",
    metavar="FILE",
    help="Also write what a bug report needs (FILE.tar.gz; - is stdout), without secrets.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@output_option
def doctor(file: str | None, force: bool, output: str) -> None:
    """Find out whether this machine is ready; exit code 1 if something is bad."""
    found = [finding for check in CHECKS for finding in check()]
    if file is not None:
        _bundle(file, found, force=force)
    if file == "-":
        pass  # stdout has the archive, and the archive has the findings
    elif output == "json":
        emit_json(found)
    else:
        width = max(len(finding.about) for finding in found)
        for finding in found:
            click.echo(line(finding, width))
    sys.exit(any(finding.level == "bad" for finding in found))


def _bundle(file: str, found: list[Finding], *, force: bool) -> None:
    from moiety.cli.doctor.bundle import write
    from moiety.cli.trace import writing

    with writing(file, force=force) as sink:
        if sink is not None:
            missing = write(sink, found)
    for text in missing:
        click.echo(f"not in it: {text}", err=True)
    if file != "-":
        click.echo(f"written to {file}: look through it before you send it", err=True)


def line(finding: Finding, width: int) -> str:
    """A finding in one line, and its advice in a second line."""
    mark = f"{finding.level:4}"
    if colour_wanted():
        mark = click.style(mark, fg=COLOURS[finding.level])
    blank = " " * (width + 8)
    # Fold before the mark is coloured: codes of colours would count as letters.
    text = fold(f"{finding.level:4}  {finding.about.ljust(width)}  {finding.text}", width + 8)
    text = mark + text[len(f"{finding.level:4}") :]
    if finding.level != "ok" and finding.hint:
        text += "\n" + fold(blank + finding.hint, width + 8)
    return text
