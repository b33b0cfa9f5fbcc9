"""Which work is suspended where it would otherwise end: its memory moves to the host.

Work that is suspended keeps all that it has done. The memory of a node bounds how much of it can
be suspended there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moiety.policy.model.decisions import Eviction
from moiety.policy.model.snapshot import Snapshot


def suspended(evictions: Sequence[Eviction], snapshot: Snapshot) -> list[Eviction]:
    """The evictions; those of work whose memory the hosts can take are suspensions.

    A workload is suspended on all of its nodes or on none, the first ones first.
    """
    free = dict(snapshot.host_free)
    if not free:
        return list(evictions)
    bytes_of = {each.task: each.state_bytes for each in snapshot.running}
    wanted: dict[str, dict[str, int]] = {}
    refused: set[str] = set()
    for each in evictions:
        name, carries = each.task.workload, bytes_of.get(each.task, 0)
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
