"""The options of `moiety submit` that say when a workload runs, how often and as what."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from moiety.cli.output import Read
from moiety.pool.model.begin import parse_begin
from moiety.pool.model.signals import WARN_S, LimitWarning, parse_warning


class Begin(Read):
    """A time to begin."""

    name = "when"

    def read(self, text: str) -> float:
        """Seconds since 1970."""
        return parse_begin(text, time.time())


class Warn(Read):
    """A signal before the time limit."""

    name = "signal"

    def read(self, text: str) -> LimitWarning:
        """Which, and how long before."""
        return parse_warning(text)


F = TypeVar("F", bound=Callable[..., Any])
OPTIONS: Final = (
    click.option("--array", default="", help="A task for each index: 0-9, 0-9:3,12, 0-99%4."),
    click.option("--depends", default="", help="Wait for others: afterok:12:13, after:7+5, ..."),
    click.option("--kill-invalid", is_flag=True, help="End if what it waits for cannot happen."),
    click.option("--tasks", type=int, default=1, help="Start it this often, each with its rank."),
    click.option("--gpus-per-task", type=int, default=0, help="GPUs that each of them sees."),
    click.option("--retries", type=int, default=0, help="Run again after failures, this often."),
    click.option("--requeue", is_flag=True, help="Run again if machine or GPU fail under it."),
    click.option("--signal", type=Warn(), help="Send a signal before --time ends it: USR1@60."),
    click.option("--input", "stdin", default="", help="File that it reads as standard input."),
    click.option("--truncate", is_flag=True, help="Empty the files of its output first."),
    click.option("--begin", type=Begin(), help="Not before: now+1hour, 16:30, 2026-12-01T08:00."),
)


def life_options(command: F) -> F:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def life_values(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a submission that the options mean."""
    warning: LimitWarning | None = given["signal"]
    return {
        "array": given["array"],
        "depends": given["depends"].replace(" ", ""),
        "kill_invalid": given["kill_invalid"],
        "begin_s": given["begin"] or 0.0,
        "tasks": given["tasks"],
        "gpus_per_task": given["gpus_per_task"],
        "retries": given["retries"],
        "requeue": given["requeue"],
        "warn_signal": warning.number if warning else 0,
        "warn_s": warning.before_s if warning else WARN_S,
        "warn_first": warning is not None and warning.is_for_first,
        "stdin": given["stdin"],
        "open_mode": "truncate" if given["truncate"] else "append",
    }


def gpus_of(given: dict[str, Any]) -> int:
    """How many GPUs a workload has for which that is not said."""
    return given["tasks"] * given["gpus_per_task"] if given["gpus_per_task"] else 1
