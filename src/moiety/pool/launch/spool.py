"""A folder for each job that needs one: its script, and what its own commands keep there."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from moiety.agent.system.permissions import let_write
from moiety.pool.model.records import Submission, WorkRow
from moiety.pool.paths import PoolPaths

SPEC: Final = "spec"
"""The file in the folder of a workload that the starter reads."""
SCRIPT: Final = "slurm_script"
"""As Slurm calls the copy that it runs; scripts print this name."""
ENVIRONMENT: Final = "environment"
MARK: Final = "{script}"


def prepare(paths: PoolPaths, row: WorkRow, asked: Submission) -> str:
    """Make the folder of a job anew; empty if it needs none. Raises OSError."""
    if not asked.script and not asked.variables:
        return ""
    folder = paths.spool_of(row.id)
    remove(paths, row.id)
    paths.spool.mkdir(mode=0o711, exist_ok=True)
    os.chmod(paths.spool, 0o711)  # whatever the umask made it
    folder.mkdir(mode=0o700)
    if asked.script:
        script = folder / SCRIPT
        script.write_bytes(asked.script.encode(asked.script_encoding))
        script.chmod(0o555)
    _give(folder, row.uid)
    return str(folder)


def keep_environment(spool: str, environment: Mapping[str, str]) -> None:
    """Write down the variables of a job, for commands that its user starts beside it.

    Raises OSError, also if there is a file of that name.
    """
    if spool:
        content = b"\0".join(os.fsencode(f"{name}={value}") for name, value in environment.items())
        # Its user may write into the folder already: what is there is not followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(Path(spool) / ENVIRONMENT, flags, 0o444), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o444)  # only its user comes into the folder


def _give(folder: Path, uid: int) -> None:
    """Let the job's user use the folder, and no other user."""
    if uid == os.geteuid():
        return
    if os.geteuid() == 0:
        os.chown(folder, uid, -1)
    else:
        let_write(folder, uid)


def with_script(words: Sequence[str], spool: str) -> list[str]:
    """The words of the program: the path of its script is known now."""
    return [f"{spool}/{SCRIPT}" if spool and word == MARK else word for word in words]


def remove(paths: PoolPaths, number: int) -> None:
    """Remove what there is of a job that is over. What its user has locked stays."""
    shutil.rmtree(paths.spool_of(number), ignore_errors=True)
    with contextlib.suppress(OSError):  # it has the whole environment of its user
        (paths.of_workload(number) / SPEC).unlink(missing_ok=True)


def sweep(paths: PoolPaths, active: Collection[int]) -> None:
    """Remove the folders of jobs that ended while there was no server."""
    try:
        found = os.listdir(paths.spool)
    except OSError:
        return
    for name in found:
        if name.isdecimal() and int(name) not in active:
            remove(paths, int(name))
