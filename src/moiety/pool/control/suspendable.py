"""Which running workloads can be suspended, and how much room the host has for their memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.agent.control.rows import ProcessRow
from moiety.model.share import Mode
from moiety.pool.paths import PoolPaths


def look(
    paths: PoolPaths, arguments: list[str], names: Mapping[str, int]
) -> tuple[dict[int, int], int]:
    """By workload that can be suspended, the bytes that would leave; and the host's room for them.

    `names` are the workloads by the agent's names of their shares. Blocking; raises what
    `ask_or_start` raises.
    """
    if not names:
        return {}, 0
    shown = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.Ps(), protocol.Processes)
    )
    status = ask_or_start(
        paths.agent, arguments, lambda call: call.ask(protocol.Status(), protocol.NodeStatus)
    )
    away = sum(max(0, row.allocated_bytes - row.resident_bytes) for row in shown.rows)
    return carried(shown.rows, names), max(0, status.arena_bytes - away)


def carried(rows: Iterable[ProcessRow], names: Mapping[str, int]) -> dict[int, int]:
    """What each workload that can be suspended has on GPUs and would move to the host.

    Memory that cannot leave, or that the driver moves when it likes, would stay: such work is not
    suspended for others. What uses no GPU yet has nothing to lose.
    """
    found: Counter[int] = Counter()
    stays: set[int] = set()
    for row in rows:
        if (number := names.get(row.workload)) is None:
            continue
        found[number] += max(1, row.resident_bytes)
        if row.pinned or row.pinned_bytes or row.managed_bytes or row.share.mode is Mode.MANAGED:
            stays.add(number)
    return {number: amount for number, amount in found.items() if number not in stays}
