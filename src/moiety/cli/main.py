"""The `moiety` command: finds the module of a subcommand, and says errors as sentences."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from moiety.model.errors import MoietyError

COMMANDS: Final = {
    "run": "Run a program so that it shares the GPUs.",
    "ps": "List the programs that share the GPUs.",
    "status": "Show the GPUs, their memory and their holders.",
    "set": "Change what a program is promised, while it runs.",
    "agent": "Start, stop or look at the daemon that owns the GPUs.",
    "stop": "Stop that daemon.",
    "doctor": "Find out whether this machine is ready, and what to do if not.",
    "version": "Show the versions of moiety and of its protocol.",
}
"""each is a module of this package with a command of the same name"""


class Commands(click.Group):
    """Imports a command when it is used; the list of commands needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"moiety.cli.{cmd_name}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table itself, so that help imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def moiety() -> None:
    """Let many CUDA programs share a GPU, each with all of its memory."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; never returns."""
    try:
        moiety.main(args=arguments, prog_name="moiety", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except MoietyError as error:
        if os.environ.get("MOIETY_DEBUG") == "1":
            raise
        click.echo(error.render(), err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
    sys.exit(0)
