"""Which work is suspended where it would otherwise end: its memory moves to the host.

Work that is suspended keeps all that it has done. The memory of a node bounds how much of it can
be suspended there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from moiety.policy.model.decisions import Eviction
from moiety.policy.model.snapshot import Running, Task


def suspended(
    evictions: Sequence[Eviction], running: Mapping[Task, Running], host_free: Mapping[str, int]
) -> list[Eviction]:
    """The evictions; those of work whose memory the hosts can take are suspensions.

    A workload is suspended on all of its nodes or on none, the first ones first. `running` has each
    task that runs; `host_free` the bytes that suspended tasks may take, by node.
    """
    free = dict(host_free)
    if not free:
        return list(evictions)
    wanted: dict[str, dict[str, int]] = {}
    refused: set[str] = set()
    for each in evictions:
        began = running.get(each.task)
        name, carries = each.task.workload, began.state_bytes if began else 0
        if each.is_final or not carries:
            refused.add(name)
        on = wanted.setdefault(name, {})
        on[each.spot.node] = on.get(each.spot.node, 0) + carries
    for name, on in wanted.items():
        if name in refused or any(free.get(node, 0) < needs for node, needs in on.items()):
            refused.add(name)
            continue
        for node, needs in on.items():
            free[node] -= needs
    return [
        each if each.task.workload in refused else replace(each, is_suspension=True)
        for each in evictions
    ]
