"""Writes Slurm's programs into a folder: small scripts that start Python as fast as it starts."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import moiety
from moiety.model.errors import BadArgument
from moiety.slurm.programs import PROGRAMS

MARK: Final = "# Written by `moiety slurm install`."
SHEBANG_MAX: Final = 120
"""The longest path of an interpreter that every kernel takes, with its option."""


def folders() -> list[str]:
    """Where this moiety lies, and what it imports of others."""
    own = str(Path(moiety.__file__).resolve().parents[1])
    return list(dict.fromkeys([own, *(each for each in sys.path if each.endswith("-packages"))]))


def text(name: str) -> str:
    """One program. Python starts without `site`: the folders are named instead.

    The kernel starts Python itself where it can: a shell would drop variables whose names it does
    not know, such as functions that bash exports.
    """
    lines = [
        f"import sys; sys.path += {folders()!r}",
        "from moiety.slurm.programs import main",
        f"main({name!r}, sys.argv[1:])",
    ]
    python = os.path.abspath(sys.executable)
    if len(python) <= SHEBANG_MAX and not python.split()[1:]:
        return "\n".join([f"#!{python} -IS", MARK, *lines, ""])
    start = shlex.quote("; ".join(lines))
    return f'#!/bin/sh\n{MARK}\nexec {shlex.quote(python)} -I -S -c {start} "$@"\n'


def install(folder: Path) -> list[Path]:
    """Write all programs; raises BadArgument where another program has such a name."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [folder / name for name in PROGRAMS]
    for path in found:
        if os.path.lexists(path) and not _is_ours(path):
            raise BadArgument(f"{path} is there and was not written by moiety", "another folder")
    for path in found:
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(text(path.name))
        temporary.chmod(0o755)
        temporary.replace(path)
    return found


def _is_ours(path: Path) -> bool:
    try:
        return MARK in path.read_text(errors="replace")[:200]
    except OSError:
        return False
