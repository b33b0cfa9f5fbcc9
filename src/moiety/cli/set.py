"""`moiety set`: change what a program is promised, or how the agent decides, while all runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from moiety.agent import requests
from moiety.agent.caller import call
from moiety.agent.directory import find
from moiety.agent.options import FLAGS, KILL_FLAG, KILL_HELP
from moiety.cli.show import Fraction, ModeName, PriorityName, Size
from moiety.model import errors

NONE = "none"


class OrNone(click.ParamType[Any]):
    """A value, or the word that takes it away."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.inner = inner
        self.name = inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """NONE itself, or what the other type makes of it."""
        return value if value == NONE else self.inner.convert(value, param, ctx)


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arbiter's settings, from the agent's own table."""
    command = click.option(f"{KILL_FLAG}/--no-overdue-kill", default=None, help=KILL_HELP)(command)
    for flag in reversed([flag for flag in FLAGS if flag.of_arbiter]):
        text = f"With --agent: {flag.help}"
        command = click.option(flag.name, flag.field, metavar=flag.metavar, help=text)(command)
    return command


@click.command()
@click.argument("target", required=False, metavar="TENANT|PID|NAME")
@click.option("--gpu", type=OrNone(Fraction()), help="The part it is guaranteed, or none.")
@click.option("--gpu-limit", type=OrNone(Fraction()), help="The largest part it may have, or none.")
@click.option("--memory", type=OrNone(Size()), help="What stays on the GPU, or none.")
@click.option("--memory-limit", type=OrNone(Size()), help="The most it may allocate, or none.")
@click.option("--priority", type=PriorityName(), help="low, normal or high.")
@click.option("--latency/--no-latency", default=None, help="Whether it goes first at once.")
@click.option("--mode", type=ModeName(), help="How its memory leaves: swap or managed.")
@click.option("--agent", "of_agent", is_flag=True, help="Change how the agent decides instead.")
@_settings
def set(  # noqa: A001 - the command's own name
    target: str | None, of_agent: bool, overdue_kill: bool | None, **given: Any
) -> None:
    """Change what a program is promised, or with --agent how turns are made, while all runs on.

    A new memory limit or mode holds for what is allocated from then on.
    """
    settings = {f.field: given[f.field] for f in FLAGS if f.of_arbiter and given[f.field]}
    share = {name: given[name] for name in _FIELDS if given[name] is not None}
    if of_agent == bool(target):
        raise errors.BadArgument("either a program or --agent is to be named", "moiety set --help")
    if of_agent:
        if share or not (settings or overdue_kill is not None):
            raise errors.BadArgument(
                "--agent takes settings of the agent, at least one", "--turn-min 200ms, say"
            )
        with call(find()) as agent:
            agent.ask(requests.SetAgent(settings, overdue_kill), requests.Done)
        return
    if settings or overdue_kill is not None or not share:
        raise errors.BadArgument(
            "a program takes --gpu, --gpu-limit, --memory, --memory-limit, --priority, "
            "--latency or --mode, at least one",
            "moiety set --help",
        )
    changes = {
        field: _NOTHING[name] if value == NONE else value
        for name, field in _FIELDS.items()
        if (value := share.get(name, msgspec.UNSET)) is not msgspec.UNSET
    }
    with call(find()) as agent:
        done = agent.ask(requests.SetShare(str(target), **changes), requests.Shared)
    click.echo(f"{done.program} (pid {done.pid}): {done.share}")
    if "mode" in share:
        click.echo(f"what it allocates from now on is in {done.share.mode} mode; the rest stays")


_FIELDS = {
    "gpu": "gpu",
    "gpu_limit": "gpu_limit",
    "memory": "memory_bytes",
    "memory_limit": "memory_limit_bytes",
    "priority": "priority",
    "latency": "latency",
    "mode": "mode",
}
"""of a share, by option"""
_NOTHING: dict[str, Any] = {"gpu": None, "gpu_limit": 1.0, "memory": 0, "memory_limit": None}
