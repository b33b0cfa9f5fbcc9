"""`moiety completion`: prints the code for a shell, and answers its requests for completions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from moiety.config.setting import Setting
from moiety.config.table import SECTIONS, SETTINGS
from moiety.model.errors import MoietyError

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_MOIETY_COMPLETE"
PATIENCE_S: Final = 1.0
PLAIN: Final = re.compile(r"[\w.+-]+")
"""Names that shells do not split."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what bash, zsh or fish needs to complete the command lines of moiety.

    Commands, options and their values are completed, and programs that share the GPUs by number
    and name: for that, a running agent is asked; none is started.
    """
    from moiety.cli.main import moiety

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(moiety, {}, "moiety", VARIABLE).source())


def one_of(words: Iterable[str]) -> Complete:
    """Completes one of these words."""
    known = tuple(words)

    def complete(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
        del ctx, param
        return [CompletionItem(each) for each in known if each.startswith(word)]

    return complete


def of_setting(setting: Setting) -> Complete | None:
    """Completes the value of a setting; None if it can be anything."""
    return one_of(setting.words) if setting.words else None


names_of_settings = one_of([*SECTIONS, *(setting.name for setting in SETTINGS)])


def commands(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Completes the name of a command, or of one below those that were typed already."""
    command = ctx.find_root().command
    for name in ctx.params.get(param.name or "") or ():
        if not isinstance(command, click.Group):
            return []
        below = command.get_command(ctx, name)
        if below is None:
            return []
        command = below
    if not isinstance(command, click.Group):
        return []
    return [CompletionItem(each) for each in command.list_commands(ctx) if each.startswith(word)]


def tenants(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Completes programs that share the GPUs now: their numbers, and unique names."""
    from moiety.agent.control import protocol
    from moiety.agent.control.client import Call
    from moiety.agent.system.paths import find

    del ctx, param
    try:
        with Call(find(), timeout_s=PATIENCE_S) as agent:
            rows = agent.ask(protocol.Ps(), protocol.Processes).rows
    except MoietyError:
        return []
    by_number = {str(row.tenant): row for row in rows}
    names = [row.program for row in by_number.values()]
    found = [
        CompletionItem(row.program, help=f"pid {row.pid}, {row.state}")
        for row in by_number.values()
        if names.count(row.program) == 1 and PLAIN.fullmatch(row.program)
    ]
    found += [
        CompletionItem(number, help=f"{row.program}, pid {row.pid}, {row.state}")
        for number, row in by_number.items()
    ]
    return [item for item in found if item.value.startswith(word)]


def gpus(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Completes the indices of the agent's GPUs."""
    from moiety.agent.control import protocol
    from moiety.agent.control.client import Call
    from moiety.agent.system.paths import find

    typed = ctx.params.get(param.name or "") or ()
    try:
        with Call(find(), timeout_s=PATIENCE_S) as agent:
            rows = agent.ask(protocol.GpusRequest(), protocol.GpuList).rows
    except MoietyError:
        return []
    return [
        CompletionItem(str(row.gpu), help=f"{row.name}{', drained' if row.drained else ''}")
        for row in rows
        if str(row.gpu).startswith(word) and str(row.gpu) not in typed
    ]


def programs(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Completes programs: names of the search path, or files."""
    del ctx, param
    if "/" in word or not word:
        return [CompletionItem(word, type="file")]
    found: set[str] = set()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        try:
            entries = os.scandir(folder or ".")
        except OSError:
            continue
        with entries:
            for entry in entries:
                if entry.name.startswith(word) and os.access(entry.path, os.X_OK):
                    found.add(entry.name)
    return [CompletionItem(name) for name in sorted(found)] or [CompletionItem(word, type="file")]


def files(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
    """Completes files."""
    del ctx, param
    return [CompletionItem(word, type="file")]
