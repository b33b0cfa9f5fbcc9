"""`moiety submit`: give the pool a program to run when GPUs have room for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from moiety.cli.debugger_check import refuse
from moiety.cli.executable import check, find
from moiety.cli.lazy_completion import completed
from moiety.cli.output import Duration, Fraction, Size, emit_json, output_option
from moiety.cli.pool_files import read_yaml
from moiety.cli.submit_life import gpus_of, life_options, life_values
from moiety.model.errors import BadArgument, PoolFileInvalid
from moiety.pool.client import PoolClient
from moiety.pool.model.project_rows import DEFAULT_PROJECT
from moiety.pool.model.records import GRACE_S, Accepted, Submission

DROPPED: Final = ("MOIETY_SOCKET",)
"""Variables of the program that submits: those of its own share."""


def _key(opt: str) -> str:
    """How a file names an option: `error_log` for `--error-log`."""
    return opt.lstrip("-").replace("-", "_")


def _from_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Use what a file says where the command line says nothing; raises PoolFileInvalid."""
    del param
    if value is None:
        return None
    found = read_yaml(Path(value), as_typed=True)
    if not isinstance(found, Mapping):
        raise PoolFileInvalid(value, "it is no mapping of options to values")
    known = {_key(opt): each.name for each in ctx.command.params for opt in each.opts}
    defaults: dict[str, Any] = {}
    for key, setting in found.items():
        name = str(key).replace("-", "_")
        if name == "command":
            are_words = isinstance(setting, list) and all(isinstance(w, str) for w in setting)
            if not are_words or not setting:
                raise PoolFileInvalid(value, "`command` is no list of words")
            ctx.obj = setting
        elif name in known and name not in ("file", "program", "arguments", "output"):
            if not isinstance(setting, str):
                raise PoolFileInvalid(value, f"{key!r} has several values, and takes one")
            defaults[known[name] or name] = setting
        else:
            raise PoolFileInvalid(value, f"{key!r} is no option of `moiety submit`")
    ctx.default_map = defaults
    return value


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-f",
    "--file",
    callback=_from_file,
    is_eager=True,
    expose_value=False,
    help="A YAML file with options.",
)
@click.option("--project", default=DEFAULT_PROJECT, show_default=True, help="Whose quota it uses.")
@click.option("--name", default="", help="What to call it instead of the program's name.")
@click.option("--gpus", type=int, help="How many GPUs (1); 0: none.")
@click.option("--gpu", type=Fraction(), help="The part of each GPU's time instead of all of it.")
@click.option("--memory", type=Size(), help="Memory that is kept for it on each GPU.")
@click.option("--memory-limit", type=Size(), help="The most that it may allocate on each GPU.")
@click.option("--gpu-model", default="", help="A part of the model's name, such as A100.")
@click.option("--cpus", type=float, default=0.0, help="Processors that are counted for it.")
@click.option("--host-memory", type=Size(), help="Memory of the machine that is counted for it.")
@click.option(
    "--priority",
    type=int,
    default=0,
    help="Higher goes first within its project; above 0 is for administrators.",
)
@click.option("--opportunistic", is_flag=True, help="Run on what no other work wants.")
@click.option("--no-preempt", is_flag=True, help="Never end it for others; only within quota.")
@click.option("--time", "time_limit", type=Duration(), help="End it after this time.")
@click.option("--grace", type=Duration(), help="Time between SIGTERM and SIGKILL (10s).")
@click.option("--hold", is_flag=True, help="Keep it in the queue until it is released.")
@click.option("--log", default="", help="File of its output; %j: its number, %x: its name.")
@click.option("--error-log", default="", help="File of its errors instead of the same.")
@life_options
@click.option("--no-check", is_flag=True, help="Take it whatever kind of program it is.")
@click.option("-q", "--quiet", is_flag=True, help="Print its number only.")
@output_option
@click.argument("program", required=False, shell_complete=completed("programs"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=completed("files"))
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    project: str,
    name: str,
    gpus: int | None,
    gpu: float | None,
    memory: int | None,
    memory_limit: int | None,
    gpu_model: str,
    cpus: float,
    host_memory: int | None,
    priority: int,
    opportunistic: bool,
    no_preempt: bool,
    time_limit: float | None,
    grace: float | None,
    hold: bool,
    log: str,
    error_log: str,
    no_check: bool,
    quiet: bool,
    output: str,
    program: str | None,
    arguments: tuple[str, ...],
    **life: Any,
) -> None:
    """Submit PROGRAM: it waits in the queue, and runs with the share that is asked for.

    Without --gpu and --memory it gets whole GPUs, which others use while it does not. Its output
    goes to moiety-NUMBER.log in this folder.
    """
    words = [program, *arguments] if program else list(ctx.obj or ())
    if not words:
        raise BadArgument("no program is named", "moiety submit -- python train.py")
    if life["signal"] and time_limit is None:
        raise BadArgument(
            "--signal is sent before the time limit, and there is none",
            "--time 2h --signal USR1@60",
        )
    gpus = gpus_of(life) if gpus is None else gpus
    if no_check or not gpus:
        path = find(words[0])
    else:
        path = check(words[0]).path
        refuse(path, os.environ)
    mask = os.umask(0o022)
    os.umask(mask)
    asked = Submission(
        program=os.path.abspath(path),
        argv=words,
        cwd=os.getcwd(),
        environment={k: v for k, v in os.environ.items() if k not in DROPPED},
        name=name,
        project=project,
        gpus=gpus,
        gpu=gpu,
        memory_bytes=memory or 0,
        memory_limit_bytes=memory_limit or 0,
        gpu_model=gpu_model,
        cpus=cpus,
        host_memory_bytes=host_memory or 0,
        priority=priority,
        opportunistic=opportunistic,
        preemptible=not no_preempt,
        time_limit_s=time_limit,
        grace_s=GRACE_S if grace is None else grace,
        hold=hold,
        stdout=log,
        stderr=error_log,
        umask=mask,
        **life_values(life),
    )
    asked.check()
    accepted = PoolClient().post("/workloads", Accepted, asked)
    if output == "json":
        emit_json(accepted)
    elif quiet:
        click.echo(accepted.id)
    elif accepted.tasks is not None:
        click.echo(f"submitted array {accepted.id} with {accepted.tasks} tasks")
    else:
        click.echo(f"submitted workload {accepted.id}")
