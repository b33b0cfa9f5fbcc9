"""Has the store delete what ended long ago, now and then."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import structlog

from moiety.pool.store.retention import delete_old

EVERY_S: Final = 3600.0
PAUSE_S: Final = 1.0
"""Between two transactions that delete: submissions come first."""
Write = Callable[[Callable[[sqlite3.Connection], int]], Awaitable[int]]


async def keep_clean(write: Write, keep_s: float) -> None:
    """Delete for ever what ended more than `keep_s` ago."""
    while True:
        await clean(write, time.time() - keep_s)
        await asyncio.sleep(EVERY_S)


async def clean(write: Write, before_s: float) -> int:
    """Delete all that ended before this, a little at a time; how much it was."""
    log: Any = structlog.get_logger()
    total = 0
    try:
        while deleted := await write(partial(delete_old, before_s=before_s)):
            total += deleted
            await asyncio.sleep(PAUSE_S)
    except sqlite3.Error as error:  # the disk is full, say; the next time will do
        log.warning("cleaning_failed", problem=str(error))
    if total:
        log.info("cleaned", rows=total)
    return total
