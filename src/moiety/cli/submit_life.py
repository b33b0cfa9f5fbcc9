"""The options of `moiety submit` that say when a workload runs, how often and as what."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from moiety.cli.output import Read
from moiety.pool.model.begin import parse_begin


class Begin(Read):
    """A time to begin."""

    name = "when"

    def read(self, text: str) -> float:
        """Seconds since 1970."""
        return parse_begin(text, time.time())


F = TypeVar("F", bound=Callable[..., Any])
OPTIONS: Final = (
    click.option("--array", default="", help="A task for each index: 0-9, 0-9:3,12, 0-99%4."),
    click.option("--depends", default="", help="Wait for others: afterok:12:13, after:7+5, ..."),
    click.option("--kill-invalid", is_flag=True, help="End if what it waits for cannot happen."),
    click.option("--begin", type=Begin(), help="Not before: now+1hour, 16:30, 2026-12-01T08:00."),
)


def life_options(command: F) -> F:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def life_values(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a submission that the options mean."""
    return {
        "array": given["array"],
        "depends": given["depends"].replace(" ", ""),
        "kill_invalid": given["kill_invalid"],
        "begin_s": given["begin"] or 0.0,
    }
