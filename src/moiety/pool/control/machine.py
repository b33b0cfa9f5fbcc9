"""The machine as the pool's engine needs it: its GPUs, and what others have of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.agent.control.rows import GpuUse, StrangerRow
from moiety.pool.engine.messages import CardView, MachineView
from moiety.pool.paths import PoolPaths

STEP_MILLI: Final = 50
"""Measured use is rounded up to this, so that small changes change nothing."""


def look(paths: PoolPaths, arguments: list[str], own: Collection[str]) -> MachineView:
    """Ask the agent, which is started if there is none; `own` are its names of the pool's shares.

    Blocking. Raises what `ask_or_start` raises.
    """
    gpus = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.GpusRequest(), protocol.GpuList)
    )
    watched = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.WatchRequest(), protocol.Watched)
    )
    return MachineView(
        name=os.uname().nodename.partition(".")[0] or "localhost",
        cpu_milli=(os.cpu_count() or 1) * 1000,
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        cards=cards_of(gpus.rows, watched.strangers, own),
    )


def cards_of(
    rows: Iterable[GpuUse], strangers: Iterable[StrangerRow], own: Collection[str]
) -> list[CardView]:
    """The GPUs with what is promised outside the pool, and what processes outside moiety have."""
    busy: Counter[int] = Counter()
    used: Counter[int] = Counter()
    for each in strangers:
        busy[each.gpu] += _in_steps(each.busy or 0.0)
        used[each.gpu] += (each.used_bytes or 0) >> 20
    found = []
    for row in rows:
        ours = [user.share for user in row.users if user.workload in own]
        milli = round((row.promised_gpu - sum(share.gpu or 0.0 for share in ours)) * 1000)
        mib = row.promised_bytes - sum(share.memory_bytes for share in ours) >> 20
        found.append(
            CardView(
                index=row.gpu,
                model=row.name,
                memory_mib=row.capacity_bytes >> 20,
                usable=not (row.drained or row.lost),
                outside_milli=min(max(milli, 0) + busy[row.gpu], 1000),
                outside_mib=max(mib, 0) + used[row.gpu],
            )
        )
    return found


def _in_steps(part: float) -> int:
    return -(-round(part * 1000) // STEP_MILLI) * STEP_MILLI
