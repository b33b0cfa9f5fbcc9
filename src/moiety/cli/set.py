"""`moiety set`: change what a program is promised, or how the agent decides, while all runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.control.options import FLAGS
from moiety.agent.system.paths import find
from moiety.cli.lazy_completion import completed, completed_as
from moiety.cli.output import (
    Duration,
    Fraction,
    Limit,
    ModeName,
    PriorityName,
    Size,
    emit_json,
    output_option,
)
from moiety.model import errors
from moiety.model.format import format_bytes
from moiety.model.units import NO_LIMIT
from moiety.version import __version__

NONE = "none"
QUANTUM = "--quantum"
"""The quantum of a program; with --agent, of all programs without their own quantum."""

_OF_AGENT = [flag for flag in FLAGS if flag.of_arbiter and flag.flag != QUANTUM]


class OrNone(click.ParamType[Any]):
    """A value, or the word that removes it."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.inner = inner
        self.name = inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """NONE itself, or the value that the inner type reads."""
        return value if value == NONE else self.inner.convert(value, param, ctx)


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arbiter's settings, from the agent's own table."""
    for flag in reversed(_OF_AGENT):
        text = f"With --agent: {flag.help}"
        command = click.option(
            str(flag.flag),
            flag.field,
            metavar=flag.metavar,
            help=text,
            shell_complete=completed_as(flag),
        )(command)
    return command


@click.command()
@click.argument(
    "target", required=False, metavar="TENANT|PID|NAME", shell_complete=completed("tenants")
)
@click.option("--gpu", type=OrNone(Fraction()), help="The part it is guaranteed, or none.")
@click.option("--gpu-limit", type=OrNone(Fraction()), help="The largest part it may have, or none.")
@click.option("--memory", type=OrNone(Size()), help="What stays on the GPU, or none.")
@click.option(
    "--memory-limit", type=OrNone(Limit()), help="The most it may allocate: SIZE, 150%, or none."
)
@click.option("--priority", type=PriorityName(), help="low, normal or high.")
@click.option("--latency/--no-latency", default=None, help="Whether it goes first at once.")
@click.option("--mode", type=ModeName(), help="How its memory leaves: swap or managed.")
@click.option(QUANTUM, "quantum_s", type=OrNone(Duration()), help="How long turns are, or none.")
@click.option("--agent", "of_agent", is_flag=True, help="Change how the agent decides instead.")
@click.option("--defaults", is_flag=True, help="With --agent: forget what was changed before.")
@_settings
@output_option
def set(  # noqa: A001 - the command's own name
    target: str | None,
    of_agent: bool,
    defaults: bool,
    output: str,
    **given: Any,
) -> None:
    """Change what a program is promised, or with --agent how turns are made, while all runs on.

    A new memory limit holds for what is allocated from then on; the program sees it at once as the
    GPU's size. A new mode, too, holds for what is allocated from then on. What --agent changes is
    kept for the agents that follow.
    """
    settings = {f.field: given[f.field] for f in _OF_AGENT if given[f.field] is not None}
    share = {name: given[name] for name in _FIELDS if given[name] is not None}
    if of_agent == bool(target):
        raise errors.BadArgument("either a program or --agent is to be named", "moiety set --help")
    if of_agent:
        quantum_s = share.pop("quantum_s", None)
        if quantum_s is not None:
            settings["quantum_s"] = "0" if quantum_s == NONE else f"{quantum_s!r}s"
        if share or not (settings or defaults):
            raise errors.BadArgument(
                "--agent takes settings of the agent, at least one", "--turn-min 200ms, say"
            )
        with call(find()) as agent:
            agent.ask(protocol.SetAgent(settings, defaults), protocol.Done)
            if output == "json":
                emit_json(agent.ask(protocol.Status(), protocol.NodeStatus).settings)
                return
        if defaults:
            click.echo("the agent forgot what was changed before")
        for flag in FLAGS:
            if flag.field in settings:
                click.echo(f"{flag.name} is {settings[flag.field]} from now on")
        return
    if settings or defaults or not share:
        raise errors.BadArgument(
            "a program takes --gpu, --gpu-limit, --memory, --memory-limit, --priority, --latency, "
            "--quantum or --mode, at least one",
            "moiety set --help",
        )
    changes = {
        field: _NOTHING[name] if value == NONE else value
        for name, field in _FIELDS.items()
        if (value := share.get(name, msgspec.UNSET)) is not msgspec.UNSET
    }
    if limit := changes.pop("memory_limit", None):
        changes |= {"memory_limit_bytes": limit.size_bytes, "memory_limit_part": limit.part}
    with call(find()) as agent:
        if changes.get("memory_limit_part") and protocol.MEMORY_PART not in agent.agent.features:
            raise errors.AgentVersion(agent=agent.agent.product, own=__version__)
        done = agent.ask(protocol.SetShare(str(target), **changes), protocol.Shared)
    if output == "json":
        emit_json(done)
        return
    who = f"{done.program} (pid {done.pid})" if done.pid else done.program  # one for containers
    click.echo(f"{who}: {done.share}")
    if "mode" in share:
        click.echo(f"what it allocates from now on is in {done.share.mode} mode; the rest stays")
    if done.above_limit_bytes:
        click.echo(
            f"it has {format_bytes(done.above_limit_bytes)} more than that already, which stay; "
            "it gets no more before it has freed so much",
            err=True,
        )


_FIELDS = {
    "gpu": "gpu",
    "gpu_limit": "gpu_limit",
    "memory": "memory_bytes",
    "memory_limit": "memory_limit",
    "priority": "priority",
    "latency": "latency",
    "mode": "mode",
    "quantum_s": "quantum_s",
}
"""The fields of a share, by option; a memory limit is two."""
_NOTHING: dict[str, Any] = {
    "gpu": None,
    "gpu_limit": 1.0,
    "memory": 0,
    "memory_limit": NO_LIMIT,
    "quantum_s": None,
}
