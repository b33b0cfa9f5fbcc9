"""Routes of the pool as a whole: its status, and its end."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moiety.pool.api.answers import answer
from moiety.pool.api.peer import Caller
from moiety.pool.api.route import ApiRoute, ServedPool
from moiety.pool.model.project_rows import ProjectUse
from moiety.pool.model.records import PoolStatus
from moiety.pool.model.states import ACTIVE
from moiety.pool.store import rows
from moiety.version import __version__


async def on_status(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """What there is, and what each project has."""
    active = rows.live(pool.reader, ACTIVE)
    milli: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for row in active:
        running[row.project] += 1
        milli[row.project] += row.gpu_milli * len(row.cards)
    waiting = rows.waiting_by_project(pool.reader)
    machine = await pool.loop.seen()
    return answer(
        PoolStatus(
            pid=os.getpid(),
            version=__version__,
            agent=str(pool.paths.agent.path),
            up_s=time.monotonic() - pool.began_s,
            gpus=len(machine.cards) if machine else 0,
            host=machine.name if machine else "",
            cpus=machine.cpu_milli // 1000 if machine else 0,
            memory_mib=machine.memory_mib if machine else 0,
            gpu_models=[card.model for card in machine.cards] if machine else [],
            counts=rows.counts(pool.reader),
            isolation=pool.loop.isolation(),
            start_refused=pool.loop.start_refused,
            notes=pool.loop.cards.notes(pool.loop.machine),
            projects=[
                ProjectUse(
                    project=each,
                    running=running[each.name],
                    waiting=waiting.get(each.name, 0),
                    gpu_milli=milli[each.name],
                )
                for each in rows.projects(pool.reader)
            ],
        )
    )


async def on_stop(pool: ServedPool, request: Request, caller: Caller) -> Response:
    """End the server; workloads run on."""
    caller.must_be_admin("end the pool")
    running = len(pool.loop.running.by_number)
    await asyncio.to_thread(pool.loop.end_starts)
    pool.stop()
    return answer({"running": running})


ROUTES: Final = (
    ApiRoute("GET", "/status", on_status, PoolStatus),
    ApiRoute("POST", "/stop", on_stop, dict[str, int]),
)
