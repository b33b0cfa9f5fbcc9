"""The machine as the pool's engine needs it: its GPUs, and what others have of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.agent.control.other_rows import OUTSIDE
from moiety.agent.control.rows import GpuUse, ProcessRow, StrangerRow, UserLimitRow
from moiety.pool.engine.messages import CardView, MachineView, UserView
from moiety.pool.paths import PoolPaths

STEP_MILLI: Final = 50
"""Measured use is rounded up to this, so that small changes change nothing."""
MINUTE_S: Final = 60.0
"""Of so much time the agent says how long the work of a process outside moiety ran."""


ANCESTORS_MAX: Final = 64
"""How far above a process its supervisor is looked for."""


def look(
    paths: PoolPaths,
    arguments: list[str],
    own: Collection[str],
    supervisors: Collection[int] = (),
    users: Collection[int] = (),
) -> MachineView:
    """Ask the agent, which is started if there is none; `own` are its names of the pool's shares.

    What is below the pool's `supervisors` is the pool's own, also while it is not known to the
    agent: just before it has its share, and just after. `users` are those whose limits are asked
    for. Blocking. Raises as `ask_or_start`.
    """
    gpus = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.GpusRequest(), protocol.GpuList)
    )
    watched = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.WatchRequest(), protocol.Watched)
    )
    processes = ask_or_start(
        paths.agent,
        arguments,
        lambda call: call.ask(protocol.Ps(outside=True), protocol.Processes),
    )
    status = ask_or_start(
        paths.agent,
        arguments,
        lambda call: call.ask(protocol.Status(limits_of=sorted(users)), protocol.NodeStatus),
    )
    return MachineView(
        name=os.uname().nodename.partition(".")[0] or "localhost",
        cpu_milli=(os.cpu_count() or 1) * 1000,
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        cards=cards_of(
            gpus.rows,
            [each for each in watched.strangers if not is_below(each.pid, supervisors)],
            own,
            [
                each
                for each in processes.rows
                if each.state == OUTSIDE and not is_below(each.pid, supervisors)
            ],
        ),
        arena_mib=status.arena_bytes >> 20,
        limits={uid: limit_of(row, own) for uid, row in status.limits.items()},
    )


def limit_of(row: UserLimitRow, own: Collection[str]) -> UserView:
    """What a user may have; `own` are the agent's names of the pool's shares."""
    return UserView(
        gpu_milli=None if row.gpu is None else round(row.gpu * 1000),
        memory_mib=None if row.memory_bytes is None else row.memory_bytes >> 20,
        memory_part=row.memory_part,
        workloads=row.workloads,
        gpus=row.gpus,
        priority=row.priority,
        where=row.where,
        outside=sum(name not in own for name in row.has),
    )


def is_below(pid: int, ancestors: Collection[int]) -> bool:
    """Whether a process is one of these, or descends from one."""
    for _ in range(ANCESTORS_MAX):
        if pid in ancestors:
            return True
        if pid <= 1:
            return False
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def cards_of(
    rows: Iterable[GpuUse],
    strangers: Iterable[StrangerRow],
    own: Collection[str],
    processes: Iterable[ProcessRow] = (),
) -> list[CardView]:
    """The GPUs with what is promised outside the pool, and what processes outside moiety have.

    `strangers` were measured over time, `processes` are those of now.
    """
    busy: Counter[int] = Counter()
    used: Counter[int] = Counter()
    now: Counter[int] = Counter()
    for process in processes:
        if process.state == OUTSIDE and process.gpu is not None:
            now[process.gpu] += process.resident_bytes >> 20
    for each in strangers:
        worked = max(each.busy or 0.0, min(each.worked_s / MINUTE_S, 1.0))
        busy[each.gpu] += _in_steps(worked)
        used[each.gpu] += (each.used_bytes or 0) >> 20
    found = []
    for row in rows:
        ours = [
            user.share.without_promises if user.suspended else user.share
            for user in row.users
            if user.workload in own
        ]
        milli = round((row.promised_gpu - sum(share.gpu or 0.0 for share in ours)) * 1000)
        mib = row.promised_bytes - sum(share.memory_bytes for share in ours) >> 20
        found.append(
            CardView(
                index=row.gpu,
                model=row.name,
                memory_mib=row.capacity_bytes >> 20,
                usable=not (row.drained or row.lost),
                drained=row.drained,
                lost=bool(row.lost),
                outside_milli=min(max(milli, 0) + busy[row.gpu], 1000),
                outside_mib=max(mib, 0) + max(used[row.gpu], now[row.gpu]),
            )
        )
    return found


def _in_steps(part: float) -> int:
    return -(-round(part * 1000) // STEP_MILLI) * STEP_MILLI
