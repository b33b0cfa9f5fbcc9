"""The `moiety` command: finds the module of a subcommand, and prints errors as sentences."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import click

from moiety.cli.examples import EXAMPLES, text
from moiety.model.errors import (
    ArraysMissing,
    BadArgument,
    ExitCode,
    InvalidValue,
    MoietyError,
    SystemRefusal,
)
from moiety.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Final = {
    "run": "Run a program so that it shares the GPUs.",
    "ps": "List the programs that share the GPUs.",
    "inspect": "Show all that is known of one program.",
    "kill": "Send a signal to a program that shares the GPUs.",
    "wait": "Wait until a program that shares the GPUs has ended.",
    "status": "Show the GPUs, their memory and their holders.",
    "gpu": "List the GPUs with their programs; drain one, and give it back.",
    "watch": "Show who uses the GPUs beside moiety, and what is done.",
    "suspend": "Take a program's turns away, and its memory off the GPU.",
    "resume": "Let a suspended program go on.",
    "set": "Change what a program is promised, while it runs.",
    "top": "Watch the GPUs and the programs that share them.",
    "events": "Tell what happened: refusals, evictions, warnings, and who was ended.",
    "trace": "Tell where the GPUs' time went, and write it down for a trace viewer.",
    "up": "Make this machine a pool in which work waits for GPUs.",
    "submit": "Give the pool a program to run when GPUs have room for it.",
    "queue": "List what runs and waits in the pool, and why.",
    "logs": "Show what a workload of the pool has written.",
    "attach": "Follow a workload of the pool, or run a command beside it.",
    "explain": "Say why a workload of the pool waits.",
    "cancel": "End a workload of the pool, or take it out of the queue.",
    "hold": "Keep a workload of the pool from starting.",
    "release": "Let a held workload of the pool start.",
    "backup": "Write a copy of the pool's store, while it runs.",
    "restore": "Put a copy of the pool's store in its place, while the pool is down.",
    "update": "Change what a workload of the pool asks for, or has.",
    "history": "List what has ended in the pool, and how.",
    "apply": "Make or change the projects of the pool.",
    "diff": "Show what `apply` would change, and who would have too much then.",
    "down": "End the pool; what runs goes on.",
    "slurm": "Let the scripts and programs of Slurm use the pool.",
    "container": "Give containers a share of the GPUs.",
    "kube": "Give pods of Kubernetes a share of the GPUs.",
    "agent": "Start, stop or look at the daemon that owns the GPUs.",
    "stop": "Stop that daemon.",
    "config": "Show what is set, and where; check a file of settings.",
    "sim": "Try rules of placement on the trace of a cluster, without any GPU.",
    "jupyter": "Let notebooks share the GPUs.",
    "completion": "Print what a shell needs to complete command lines.",
    "help": "Show the help of a command.",
    "doctor": "Find out whether this machine is ready, and what to do if not.",
    "version": "Show the versions of moiety and of its protocol.",
}
"""Each is a module of this package with a command of the same name."""

PACKAGES: Final = ("doctor", "sim")
"""Commands that are a folder: their module is `command` in it."""


def module_of(name: str) -> str:
    """The module in which a command of this name is defined."""
    return f"moiety.cli.{name}.command" if name in PACKAGES else f"moiety.cli.{name}"


class Commands(click.Group):
    """Imports a command when it is used; the list of commands needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(module_of(cmd_name))
        found: click.Command = getattr(module, cmd_name)
        show_examples(found, cmd_name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions from the table, so that a shell's request imports no command."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=said)
            for name, said in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click; the error for a mistyped command names similar commands."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=2)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table itself, so that help imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def show_examples(command: click.Command, name: str) -> None:
    """Put the examples of a command and its subcommands under their help."""
    if command.epilog is None and name in EXAMPLES:
        command.epilog = text(name)
    if isinstance(command, click.Group):
        for inner, below in command.commands.items():
            show_examples(below, f"{name} {inner}")


SIMULATED: Final = ("A100-40", "A100-80", "H100-80", "H200", "L40S", "T4", "V100")
"""Cards that simgpu knows by name (native/simgpu/shared/cards.c; a test compares)"""

WITHOUT_GPU: Final = f"""Without a GPU, all of it works on a simulated one: set MOIETY_SIMGPU to
{", ".join(SIMULATED[:-1])} or {SIMULATED[-1]} (2xH200 is two of them, T4:memory=4GiB a
smaller one), or to the path of a file that describes a card."""


@click.group(
    cls=Commands, epilog=WITHOUT_GPU, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--color",
    "colour",
    type=click.Choice(["auto", "always", "never"]),
    help="Use colours on a terminal (auto), always or never; NO_COLOR is heeded.",
)
@click.version_option(__version__, message="moiety %(version)s")
@click.pass_context
def moiety(ctx: click.Context, colour: str | None) -> None:
    """Let many CUDA programs share a GPU, each with all of its memory."""
    if colour not in (None, "auto"):
        ctx.color = colour == "always"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; never returns."""
    run(moiety, "moiety", arguments)


def run(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, print each error as a sentence, and end with the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    _have_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may be no text at all
    try:
        command.main(args=words, prog_name=name, standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        refuse(error)
    except MoietyError as error:
        if isinstance(error, InvalidValue) and not error.hint:
            error.hint = f"{typed(words, command, name)} --help"
        end(error)
    except ModuleNotFoundError as error:  # of the extra `sim`
        if error.name != "numpy":
            raise
        end(ArraysMissing())
    except OSError as error:  # the disk is full, say; a closed pipe does not come here
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries again, and exits with 120
        end(SystemRefusal(error))
    sys.exit(0)


def _have_streams() -> None:
    """Write to /dev/null where this process was started with stdout or stderr closed.

    A program that takes its place finds them closed: the descriptor is not inherited.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def typed(words: Sequence[str], command: click.Command | None = None, name: str = "moiety") -> str:
    """The command in a command line, without its options."""
    command = command or moiety
    found = [name]
    for word in words:
        if not isinstance(command, click.Group):
            break
        if inner := command.get_command(click.Context(command), word):
            found.append(word)
            command = inner
    return " ".join(found)


def end(error: MoietyError) -> NoReturn:
    """Say what happened and what to try, and exit with its code; with MOIETY_DEBUG=1 raise it."""
    say(error)
    sys.exit(error.exit_code)


def say(error: MoietyError) -> None:
    """Say what happened and what to try; with MOIETY_DEBUG=1 raise it."""
    if os.environ.get("MOIETY_DEBUG") == "1":
        raise error
    click.echo(as_json(error) if is_for_a_script() else error.render(), err=True)


def refuse(error: click.ClickException) -> NoReturn:
    """Say why click cannot read a command line, as click says it, and exit with our code."""
    if not is_for_a_script():
        error.show()
        sys.exit(ExitCode.USAGE)
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "moiety"
    end(BadArgument(error.format_message(), f"{command} --help"))


def is_for_a_script() -> bool:
    """Whether errors are one line of JSON."""
    return os.environ.get("MOIETY_ERRORS") == "json"


def as_json(error: MoietyError) -> str:
    """The error as one line: its class, its exit code, what happened and what to try."""
    import json

    parts = {
        "error": type(error).__name__,
        "exit_code": int(error.exit_code),
        "what": error.what,
        "try": error.hint,
    }
    return json.dumps(parts)
