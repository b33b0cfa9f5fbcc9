"""Has the store delete what ended long ago, now and then."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import structlog

from moiety.pool.paths import PoolPaths
from moiety.pool.store.retention import delete_old

EVERY_S: Final = 3600.0
PAUSE_S: Final = 1.0
"""Between two transactions that delete: submissions come first."""
Write = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]


async def keep_clean(write: Write, paths: PoolPaths, keep_s: float) -> None:
    """Delete for ever what ended more than `keep_s` ago."""
    while True:
        await clean(write, paths, time.time() - keep_s)
        await asyncio.sleep(EVERY_S)


async def clean(write: Write, paths: PoolPaths, before_s: float) -> int:
    """Delete all that ended before this, a little at a time; how much it was."""
    log: Any = structlog.get_logger()
    total = 0
    try:
        while deleted := await write(partial(delete_old, before_s=before_s)):
            total += deleted
            await asyncio.sleep(PAUSE_S)
        there = await asyncio.to_thread(folders, paths)
        known = await write(numbers)  # later: a folder is made for what is in the store
        await asyncio.to_thread(remove_folders, paths, there - known)
    except sqlite3.Error as error:  # the disk is full, say; the next time will do
        log.warning("cleaning_failed", problem=str(error))
    if total:
        log.info("cleaned", rows=total)
    return total


def numbers(connection: sqlite3.Connection) -> set[int]:
    """The numbers of all workloads of the store."""
    return {number for (number,) in connection.execute("SELECT id FROM workload")}


def folders(paths: PoolPaths) -> set[int]:
    """The workloads that have folders, but for the last one: no number may be given twice."""
    try:
        found = {int(name) for name in os.listdir(paths.workloads) if name.isdecimal()}
    except OSError:
        return set()
    return found - {max(found, default=0)}


def remove_folders(paths: PoolPaths, gone: set[int]) -> None:
    """Remove the folders of workloads that were deleted: records, locks, messages."""
    for number in gone:
        shutil.rmtree(paths.of_workload(number), ignore_errors=True)
