"""`moiety run`: become a program that shares the GPUs."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from moiety.agent.control import protocol
from moiety.agent.control.client import Call, arguments_from_environment, ask_or_start
from moiety.agent.system.paths import find as find_directory
from moiety.cli.cards import VISIBLE, card_options, mig_part, requested, sentence, with_cards
from moiety.cli.debugger_check import refuse
from moiety.cli.executable import check, find
from moiety.cli.lazy_completion import completed
from moiety.cli.older_agents import must_know
from moiety.cli.output import Size
from moiety.cli.setting_options import setting_options, settled
from moiety.config.table import RunSettings
from moiety.devices.driver import require_driver, require_shim
from moiety.devices.program_environment import shared
from moiety.model import errors
from moiety.model.format import plain, shortened
from moiety.model.gang import of_options
from moiety.model.share import Share
from moiety.model.units import NO_LIMIT
from moiety.version import __version__


@click.command(context_settings={"allow_interspersed_args": False})
@setting_options(RunSettings)
@card_options
@click.option("--exclusive", is_flag=True, help="Have GPUs that no other program uses.")
@click.option("--wait", is_flag=True, help="If no GPU has room for its share, wait for one.")
@click.option("--gang", help="Hold GPUs only together with all programs of this gang.")
@click.option("--gang-size", type=int, help="Processes that the gang waits for.")
@click.option("--capacity", type=Size(), help="GPU memory to share out, if an agent is started.")
@click.option("--name", help="What to call it in `moiety ps` instead of the program's name.")
@click.option(
    "--agent",
    "agent_of",
    type=click.Choice(["auto", "own", "system"]),
    help="Through the agent of all users, or one of your own.",
)
@click.option("--no-check", is_flag=True, help="Start it whatever kind of program it is.")
@click.argument("program", shell_complete=completed("programs"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=completed("files"))
def run(
    gpu_count: int | None,
    gpu_index: tuple[str, ...],
    gpu_model: str | None,
    exclusive: bool,
    wait: bool,
    gang: str | None,
    gang_size: int | None,
    capacity: int | None,
    name: str | None,
    agent_of: str | None,
    no_check: bool,
    program: str,
    arguments: tuple[str, ...],
    **given: str | bool | None,
) -> None:
    """Run PROGRAM so that it shares the GPUs with whatever else is run like this.

    It takes over this process: signals and the exit code are the program's own.
    """
    told = settled(RunSettings, given)
    if exclusive and (typed := [name for name in ("gpu", "gpu_limit", "memory") if given[name]]):
        named = ", ".join("--" + name.replace("_", "-") for name in typed)
        raise errors.BadArgument(
            f"--exclusive is all of a GPU, whatever {named} says", f"--exclusive, or {named}"
        )
    quiet = told.quiet
    limit = told.memory_limit or NO_LIMIT
    share = Share(
        told.gpu,
        told.gpu_limit,
        told.memory or 0,
        limit.size_bytes,
        told.priority,
        told.latency,
        told.quantum,
        told.mode,
        limit.part,
    )
    cards = requested(gpu_count, gpu_index, gpu_model, exclusive=exclusive, environment=os.environ)
    together = of_options(gang, gang_size)
    argv = [program, *arguments]
    if _is_disabled(os.environ):
        path = find(program)
        if not quiet:
            click.echo("moiety: MOIETY_DISABLE is set; the program runs unshared", err=True)
        become(path, argv, dict(os.environ))
    environment = dict(os.environ)
    if no_check:
        path = what = find(program)
        environment["MOIETY_TOOLS"] = "allow"
    else:
        checked = check(program)
        path, what = checked.path, checked.interpreter or checked.path
        refuse(program, environment)

    shim = require_shim()
    driver = require_driver(environment)

    agent_arguments = arguments_from_environment()
    if capacity is not None:
        agent_arguments += ["--capacity", str(capacity)]  # the last one counts
    if quiet:
        os.environ["MOIETY_QUIET"] = "1"  # of this command: the program's own was copied before
    directory = find_directory(agent_of)
    wanted = protocol.CreateWorkload(
        program=Path(program).name,
        name=name,
        argv=shortened(argv),
        cwd=os.getcwd(),
        share=share,
        gang=together,
        capacity_bytes=capacity,
        cards=cards,
        wait=wait,
    )

    def create(call: Call) -> protocol.Created:
        must_know(share, call)
        asked = replace(wanted, share=whole_gpus(share, call)) if exclusive else wanted
        return have(asked, call, quiet=quiet)

    created = ask_or_start(directory, agent_arguments, create)
    if directory.shared and not quiet:
        click.echo(f"moiety: shared by this machine's agent, {directory.path}", err=True)
    if created.cards and not quiet:
        click.echo(f"moiety: {sentence(created.cards)}", err=True)
    elif (part := mig_part(os.environ)) and not quiet:
        click.echo(f"moiety: it gets {plain(part)}, as {VISIBLE} says", err=True)
    environment = with_cards(environment, created.cards, cards.named if cards else ())
    environment = shared(environment, shim, driver, created.socket, what)
    environment["MOIETY_CLEAN"] = told.clean
    say = "never" if quiet else told.say
    if say != "auto":
        environment["MOIETY_SAY"] = say
    become(path, argv, environment)


def _is_disabled(environment: Mapping[str, str]) -> bool:
    """The value of MOIETY_DISABLE; raises BadSetting if it is not 0 or 1: the shim would share."""
    text = environment.get("MOIETY_DISABLE", "")
    if text not in ("", "0", "1"):
        raise errors.BadSetting(
            "MOIETY_DISABLE", "MOIETY_DISABLE", f"{text!r} is neither 0 nor 1", "MOIETY_DISABLE=1"
        )
    return text == "1"


def have(asked: protocol.CreateWorkload, call: Call, *, quiet: bool) -> protocol.Created:
    """The workload that is asked for, once there is room if the command waits for it."""
    has_queue = protocol.WAIT in call.agent.features
    if not asked.wait:
        try:
            return call.ask(asked, protocol.Created)
        except (errors.ShareTaken, errors.GpusDrained) as error:
            error.hint = f"--wait waits for room; {error.hint}" if has_queue else error.hint
            raise
    if not has_queue:
        raise errors.AgentVersion(agent=call.agent.product, own=__version__)
    said = ""

    def told(waiting: protocol.Waiting) -> None:
        nonlocal said
        place = f"place {waiting.place} of {waiting.number}"
        text = f"moiety: no GPU has room yet ({place}, Ctrl-C to give up): {plain(waiting.reason)}"
        if text != said and not quiet:
            click.echo(text, err=True)
        said = text

    return call.wait(asked, told)


def whole_gpus(share: Share, call: Call) -> Share:
    """The share of `--exclusive` as it is asked for; an older agent does not work it out."""
    if protocol.EXCLUSIVE in call.agent.features:
        return share
    gpus = call.ask(protocol.Status(), protocol.NodeStatus).gpus
    capacity = min(gpu.capacity_bytes for gpu in gpus)
    kept = min(capacity, share.limit_bytes(capacity))
    return dataclasses.replace(share, gpu=1.0, gpu_limit=1.0, memory_bytes=kept)


def become(path: str, argv: list[str], environment: dict[str, str]) -> None:
    """Replace this process; returns only by raising."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two, and an ignored signal stays ignored in the program.
    ignored = {n: signal.signal(n, signal.SIG_DFL) for n in (signal.SIGPIPE, signal.SIGXFSZ)}
    try:
        os.execve(path, argv, environment)
    except OSError as error:
        raise errors.ProgramNotExecutable(path, error.strerror or "it cannot be run") from None
    finally:  # it is still this process
        for number, handler in ignored.items():
            signal.signal(number, handler)
