"""`moiety jupyter`: kernels for notebooks that share the GPUs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from moiety.cli.lazy_completion import completed
from moiety.cli.output import emit_json, output_option
from moiety.config import places
from moiety.model import errors

NAME: Final = "moiety"
KERNEL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
LAUNCHER: Final = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
PATIENCE_S: Final = 60.0
"""How long to wait for a Python that is asked for its modules."""
SAY: Final = ("--say", "always")
"""A kernel has no terminal, but shows its stderr in the cell."""


@click.group()
def jupyter() -> None:
    """Let notebooks share the GPUs: what a kernel holds leaves while no cell runs."""


@jupyter.command()
@click.option("--name", default=NAME, show_default=True, help="What Jupyter knows the kernel by.")
@click.option("--display-name", help="What people see in the list of kernels.")
@click.option(
    "--python",
    default=sys.executable,
    metavar="PATH",
    shell_complete=completed("files"),
    help="The Python that has ipykernel and your packages  [default: this one]",
)
@click.option("--like", metavar="KERNEL", help="Run this kernel, of any language, instead.")
@click.option("--sys-prefix", is_flag=True, help="For all who use this environment of Python.")
@click.option("--force", is_flag=True, help="Replace a kernel of this name.")
@output_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUN-OPTIONS...]")
def install(
    name: str,
    display_name: str | None,
    python: str,
    like: str | None,
    sys_prefix: bool,
    force: bool,
    output: str,
    options: tuple[str, ...],
) -> None:
    """Write a kernel that is started by `moiety run`, with RUN-OPTIONS.

    It goes to where Jupyter looks for a user's kernels; `jupyter kernelspec remove` removes it.
    """
    _check_options(options)
    if not KERNEL.fullmatch(name):
        raise errors.BadArgument(
            f"{name!r} is no name of a kernel",
            "--name with letters, digits, dots, underscores and dashes, such as gpu-half",
        )
    if like:
        spec = _read(like)
    else:
        _require_ipykernel(python)
        spec = {
            "argv": [python, *LAUNCHER],
            "display_name": "Python 3",
            "language": "python",
            "metadata": {"debugger": True},
        }
    spec["display_name"] = display_name or f"{spec.get('display_name', name)} (shared GPU)"
    spec["argv"] = [*_moiety(), "run", *SAY, "--name", name, *options, "--", *spec["argv"]]
    root = Path(sys.prefix) / "share" / "jupyter" if sys_prefix else user_folder()
    folder = root / "kernels" / name.lower()
    file = folder / "kernel.json"
    if file.exists() and not force:
        raise errors.FileExists(str(file))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(spec, indent=1) + "\n")
    except OSError as error:
        raise errors.FileNotWritable(str(file), error.strerror or str(error)) from None
    if output == "json":
        emit_json({"file": str(file), "name": name.lower(), "display_name": spec["display_name"]})
    else:
        click.echo(f"{file}: choose {spec['display_name']!r} in Jupyter")


def user_folder() -> Path:
    """Jupyter's folder for a user's data: $JUPYTER_DATA_DIR, else below XDG's data folder."""
    if named := os.environ.get("JUPYTER_DATA_DIR"):
        return Path(named)
    return places.user_folder("XDG_DATA_HOME") / "jupyter"


def folders() -> Iterator[Path]:
    """Where Jupyter looks for kernels, in its order."""
    for named in os.environ.get("JUPYTER_PATH", "").split(os.pathsep):
        if named:
            yield Path(named)
    yield user_folder()
    for prefix in (sys.prefix, "/usr/local", "/usr"):
        yield Path(prefix) / "share" / "jupyter"


def _read(kernel: str) -> dict[str, Any]:
    """The kernel of this name; raises BadArgument."""
    for folder in folders():
        file = folder / "kernels" / kernel.lower() / "kernel.json"
        try:
            spec = json.loads(file.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise errors.BadArgument(f"{file}: {error}", "another --like") from None
        argv = spec.get("argv") if isinstance(spec, dict) else None
        if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
            raise errors.BadArgument(f"{file} names no program in argv", "another --like")
        if argv[: len(_moiety())] == _moiety():
            raise errors.BadArgument(f"{kernel} is shared already", f"another one, or edit {file}")
        return dict(spec)
    raise errors.BadArgument(f"there is no kernel {kernel!r}", "jupyter kernelspec list")


def _check_options(options: tuple[str, ...]) -> None:
    """Raise the errors of `moiety run` now, and not later in the log of a server."""
    from moiety.cli.run import run
    from moiety.cli.setting_options import settled
    from moiety.config.table import RunSettings

    made = run.make_context("moiety run", [*options, "--", "true"])
    settled(RunSettings, {key: made.params.get(key) for key in made.params})


def _require_ipykernel(python: str) -> None:
    try:
        asked = subprocess.run(
            [python, "-c", "import ipykernel"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = getattr(error, "strerror", "") or "it does not end"
        raise errors.BadArgument(f"{python}: {problem}", "--python PATH") from None
    if asked.returncode:
        raise errors.BadArgument(
            f"{python} has no ipykernel", f"{python} -m pip install ipykernel, or --like KERNEL"
        )


def _moiety() -> list[str]:
    """The command with which a server starts this moiety, independent of its PATH."""
    return [sys.executable, "-m", "moiety"]
