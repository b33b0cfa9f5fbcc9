"""`moiety logs`: what a workload of the pool has written."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import Final

import click

from moiety.cli.pool_arrays import array_named
from moiety.model.errors import BadArgument, NotAllowed, PoolFileInvalid
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import ArrayStatus, WorkRow
from moiety.pool.model.states import ACTIVE, ENDS

LOOK_S: Final = 0.1
"""The time between two looks at a file that grows."""
ASK_S: Final = 1.0
"""The time between two questions whether the workload has ended."""
PIECE: Final = 1 << 16


@click.command()
@click.argument("target", metavar="ID|NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on until it has ended.")
@click.option("--error-log", is_flag=True, help="The file of its errors, if that is another.")
def logs(target: str, follow: bool, error_log: bool) -> None:
    """Show what a workload has written so far. The file is read with your own rights."""
    pool = PoolClient()
    row = pool.get(of(target), WorkRow)
    if array_named(target, row) and pool.get(of(target, "array"), ArrayStatus).tasks > 1:
        raise BadArgument(f"{target} is an array", f"one of its tasks: {row.shown_id}")
    path = row.stderr if error_log else row.stdout
    if not path:
        raise NotAllowed(f"workload {row.id} is of {row.user}", "one of your own: `moiety queue`")
    offset = 0
    asked_s = time.monotonic()
    while True:
        offset = copy(path, offset, is_needed=not follow and row.state in {*ACTIVE, *ENDS})
        if not follow:
            return
        if row.state in ENDS:
            copy(path, offset, is_needed=False)
            return
        time.sleep(LOOK_S)
        if time.monotonic() - asked_s >= ASK_S:
            asked_s = time.monotonic()
            row = pool.get(of(row.shown_id), WorkRow)


def copy(path: str, offset: int, *, is_needed: bool) -> int:
    """Print what a file has from an offset on; returns where it ends. Raises PoolFileInvalid.

    What has become shorter is printed from its begin. Its user may have put something else in its
    place: what is no file could hold the reader up for ever.
    """
    if path == os.devnull:
        return offset
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if is_needed or not isinstance(error, FileNotFoundError):
            raise PoolFileInvalid(path, error.strerror or "it cannot be read") from None
        return offset
    kept = os.fstat(fd)
    if not stat.S_ISREG(kept.st_mode):
        os.close(fd)
        raise PoolFileInvalid(path, "it is no file")
    with os.fdopen(fd, "rb") as file:
        offset = offset if offset <= kept.st_size else 0
        file.seek(offset)
        while piece := file.read(PIECE):
            sys.stdout.buffer.write(piece)
            offset += len(piece)
    sys.stdout.buffer.flush()
    return offset
