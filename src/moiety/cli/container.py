"""`moiety container`: give containers a share of the GPUs."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import arguments_from_environment, call, call_or_start
from moiety.agent.control.records import write_whole
from moiety.agent.control.rows import ContainerRow
from moiety.agent.system import cdi
from moiety.agent.system.paths import find
from moiety.cli.cards import card_options, requested, sentence
from moiety.cli.image import Image, check
from moiety.cli.image_hook import check_bundle
from moiety.cli.older_agents import must_know
from moiety.cli.output import (
    Duration,
    Fraction,
    Limit,
    ModeName,
    PriorityName,
    Size,
    emit_json,
    output_option,
    size,
    table,
)
from moiety.devices.driver import require_driver, require_shim
from moiety.model import errors
from moiety.model.format import format_fraction, plain
from moiety.model.share import Mode, Priority, Share
from moiety.model.units import NO_LIMIT, AllocationLimit
from moiety.version import __version__

STDOUT: Final = "-"


@click.group()
def container() -> None:
    """Give containers a share of the GPUs.

    A share is made once, by name, and stays until it is removed; every container that is started
    with it has it, and several together have it together.
    """


@container.command()
@click.option("--gpu", type=Fraction(), help="The part of a GPU's time that it is guaranteed.")
@click.option("--gpu-limit", type=Fraction(), default=1.0, help="The largest part it may have.")
@click.option("--memory", type=Size(), default=0, help="What stays on the GPU while others run.")
@click.option(
    "--memory-limit",
    type=Limit(),
    default=NO_LIMIT,
    help="The most GPU memory it may allocate: 20GiB, 50%; beyond 100%: --mode managed.",
)
@click.option("--priority", type=PriorityName(), default="normal", help="low, normal or high.")
@click.option("--latency", is_flag=True, help="It goes first at once, and gives back when idle.")
@click.option("--quantum", type=Duration(), help="How long its turns are.")
@click.option(
    "--mode", type=ModeName(), default="swap", help="How its memory leaves: swap, managed."
)
@card_options
@click.option("--capacity", type=Size(), help="GPU memory to share out, if an agent is started.")
@click.option("--name", required=True, help="What the share, and the device, is called.")
@click.option(
    "--output",
    metavar="DIR",
    help="Where the specification goes, instead of /etc/cdi (of a user who is not root: "
    "~/.config/cdi); - prints it and writes nothing.",
)
def spec(
    gpu: float | None,
    gpu_limit: float,
    memory: int,
    memory_limit: AllocationLimit,
    priority: Priority,
    latency: bool,
    quantum: float | None,
    mode: Mode,
    gpu_count: int | None,
    gpu_index: tuple[str, ...],
    gpu_model: str | None,
    capacity: int | None,
    name: str,
    output: str | None,
) -> None:
    """Make a share for containers, and write down how they get it.

    What is written is a specification of the Container Device Interface. Podman (4.1 and later) and
    Docker (25 and later; where CDI is turned on) read it; for others the options are printed.
    The same name again changes the share, also of containers that run. --gpus has the agent choose
    GPUs, as for `moiety run`; without it, the share is of every GPU on which a container comes.
    """
    cdi.check_name(name)
    size_bytes, part = memory_limit
    share = Share(gpu, gpu_limit, memory, size_bytes, priority, latency, quantum, mode, part)
    shim, driver = require_shim(), require_driver(os.environ)
    file = None
    if output != STDOUT:
        file = Path(output or cdi.default_dir()).absolute() / f"moiety-{name}.json"
        _must_be_ours(file)
        _must_be_writable(file)
    arguments = arguments_from_environment()
    if capacity is not None:
        arguments += ["--capacity", str(capacity)]  # the last one counts
    cards = None
    if gpu_count is not None or gpu_index or gpu_model:
        cards = requested(gpu_count, gpu_index, gpu_model, exclusive=False, environment={})
    asked = protocol.CreateContainer(
        name=name, share=share, spec=str(file or ""), capacity_bytes=capacity, cards=cards
    )
    with call_or_start(find(), arguments) as agent:
        must_know(share, agent)
        if cards and protocol.CONTAINER_CARDS not in agent.agent.features:
            raise errors.AgentVersion(agent=agent.agent.product, own=__version__)
        answer = agent.ask(asked, protocol.Contained)
    row = answer.row
    if answer.cards:
        click.echo(f"moiety: {sentence(answer.cards)}", err=True)
    found = cdi.edits(Path(row.folder), shim, driver)
    text = json.dumps(cdi.specification(name, found), indent=2) + "\n"
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        write_whole(file, text.encode())
    except OSError as error:
        raise errors.FileNotWritable(str(file), error.strerror or str(error)) from None
    _explain(name, file, found)


def _must_be_ours(file: Path) -> None:
    """Raise FileExists for a file that moiety has not written."""
    try:
        if json.loads(file.read_text()).get("kind") == cdi.KIND:
            return
    except (FileNotFoundError, NotADirectoryError):
        return  # _must_be_writable reports a path that is no folder
    except (OSError, ValueError, AttributeError):
        pass
    raise errors.FileExists(str(file), "another name: this file is not one that moiety wrote")


def _must_be_writable(file: Path) -> None:
    """Raise FileNotWritable before a share is made without its specification."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise errors.FileNotWritable(str(file), error.strerror or str(error)) from None


def _explain(name: str, file: Path, found: cdi.Edits) -> None:
    usual = file.parent == cdi.SYSTEM_DIR
    folder = "" if usual else f"--cdi-spec-dir {shlex.quote(str(file.parent))} "
    device = cdi.by_device(name, found)
    click.echo(f"wrote {plain(str(file))}\n")
    click.echo(f"podman {folder}run {device} IMAGE")
    if usual:
        click.echo(f"docker run {device} IMAGE\n")
    else:  # it takes folders from its daemon's configuration alone
        where = f"with {json.dumps(str(file.parent))} among the daemon's cdi-spec-dirs"
        click.echo(f"docker run {device} IMAGE    # {where}\n")
    click.echo("Without CDI the same is, less a look at the image before each start:\n")
    click.echo(f"docker run {cdi.by_hand(found)} IMAGE")


@container.command(name="ls")
@output_option
def list_shares(output: str) -> None:
    """List the shares that containers can have, and who has them.

    GPU has the GPUs on which a share counts: the agent chose them for --gpus, --gpu-index or
    --gpu-model. A GPU that is no longer here has its UUID there.
    """
    try:
        with call(find()) as agent:
            rows = agent.ask(protocol.Containers(), protocol.ContainerRows).rows
    except errors.NoAgent:
        if output == "json":
            emit_json([])
        else:
            click.echo("no agent is running; moiety agent start brings the shares back")
        return
    if output == "json":
        emit_json(rows)
        return
    cells = [
        [
            row.name,
            _gpus_of(row),
            row.share.of_time,
            _limit_of(row.share),
            str(len(row.pids)),
            ",".join(row.containers) or "-",
            _spec_of(row),
        ]
        for row in rows
    ]
    click.echo(table(["NAME", "GPU", "SHARE", "LIMIT", "PROCESSES", "CONTAINERS", "SPEC"], cells))


def _gpus_of(row: ContainerRow) -> str:
    numbers = {card.uuid: str(card.gpu) for card in row.cards}
    return ",".join(numbers.get(uuid, uuid) for uuid in row.gpus) or "any"


def _limit_of(share: Share) -> str:
    if share.memory_limit_part is not None:
        return format_fraction(share.memory_limit_part)
    return size(share.memory_limit_bytes)


def _spec_of(row: ContainerRow) -> str:
    if not row.spec:
        return "-"
    return row.spec if Path(row.spec).exists() else f"{row.spec} (gone)"


@container.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also while processes in containers use it.")
@output_option
def rm(name: str, force: bool, output: str) -> None:
    """Remove a share, and its specification."""
    with call_or_start(find(), arguments_from_environment()) as agent:
        asked = protocol.RemoveContainer(name=name, force=force)
        row = agent.ask(asked, protocol.Contained).row
    ours = row.uid == os.getuid()  # others could have named any file
    if row.spec and ours:
        try:
            Path(row.spec).unlink(missing_ok=True)
        except OSError as error:
            raise errors.FileNotWritable(row.spec, error.strerror or str(error)) from None
    if output == "json":
        emit_json({"name": name, "spec": row.spec or None, "spec_removed": bool(row.spec) and ours})
    elif not row.spec:
        click.echo(f"removed {name}")
    elif ours:
        click.echo(f"removed {name} and {row.spec}")
    else:
        shown = plain(row.spec)
        click.echo(f"removed {name}; its specification is another user's to remove: {shown}")


@container.command(name="check")
@click.argument("rootfs", type=click.Path(exists=True, file_okay=False))
@click.argument("program", required=False)
@output_option
def check_image(rootfs: str, program: str | None, output: str) -> None:
    """Tell whether PROGRAM in an image can be shared, ROOTFS being the folder with its files."""
    notes = check(Image(Path(rootfs).absolute()), program)
    if output == "json":
        emit_json({"notes": notes})
        return
    for note in notes:
        click.echo(plain(note))


@container.command(hidden=True)
@click.argument("name")
def hook(name: str) -> None:
    """Check a container with the share NAME before it starts (OCI hook: createRuntime)."""
    check_bundle(sys.stdin)
    with call(find()) as agent:
        rows = agent.ask(protocol.Containers(), protocol.ContainerRows).rows
    if name not in (row.name for row in rows):
        raise errors.ContainerShareUnknown(name)
