"""What the engine says of work that waits, in the words of a pool: numbers of workloads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import msgspec

from moiety.policy.explain.explanation import Explanation
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import Reason
from moiety.policy.model.queues import QueueTree
from moiety.policy.model.snapshot import Snapshot, Task
from moiety.pool.engine.messages import WaitReason
from moiety.pool.engine.snapshot import PoolNodes
from moiety.pool.model.projects import pool_words

FORESEEN_MAX: Final = 2000
"""Of more work that waits, the oldest is foreseen: what comes later changes little before."""
AHEAD_MAX: Final = 3
"""How many workloads that are ahead are named."""


def said(task: Task) -> str:
    """A task as people call it."""
    return f"workload {task.workload}"


def foreseeable(snapshot: Snapshot, numbers: Collection[int]) -> Snapshot:
    """The snapshot with no more work that waits than can be looked at while someone waits."""
    runs = {each.task.workload for each in snapshot.running}
    waits = [each for each in snapshot.workloads if each.name not in runs]
    if len(waits) <= FORESEEN_MAX:
        return snapshot
    asked = set(map(str, numbers))
    waits.sort(key=lambda each: (each.name not in asked, -each.priority, each.submitted_s))
    there = [each for each in snapshot.workloads if each.name in runs]
    return replace(snapshot, workloads=(*there, *waits[: FORESEEN_MAX + len(asked)]))


def sentence(found: Explanation, kind: str) -> WaitReason:
    """An explanation as a reason: who is ahead is named."""
    text = pool_words(found.sentence).removeprefix(f"{found.workload} ")
    text = text.removeprefix("waits: ").removeprefix("cannot run here: ")
    if found.ahead:
        are = "1 is ahead of it" if len(found.ahead) == 1 else f"{len(found.ahead)} are ahead of it"
        more = len(found.ahead) - AHEAD_MAX
        named = ", ".join(found.ahead[:AHEAD_MAX]) + (f" and {more} more" if more > 0 else "")
        text = text.replace(are, f"{are} ({named})", 1)
    return WaitReason(kind, text, found.status == "never", dict(found.numbers))


def beyond_project(snapshot: Snapshot, project: str, more_milli: int) -> str:
    """Why a project may not have so much more than what it has; empty: it may."""
    work = {each.name: each for each in snapshot.workloads}
    tree = QueueTree(snapshot.queues)
    for name in tree.path(project):
        limit = tree.queues[name].limit.gpu_milli
        has = sum(
            each.spot.gpu_milli * len(each.spot.gpus)
            for each in snapshot.running
            if not work[each.task.workload].is_opportunistic
            and name in tree.path(work[each.task.workload].queue)
        )
        if limit is not None and more_milli > 0 and has + more_milli > limit:
            return (
                f"project {name} would have {(has + more_milli) / WHOLE_GPU:g} GPUs, and its limit "
                f"is {limit / WHOLE_GPU:g}"
            )
    return ""


def beside(nodes: PoolNodes, why: WaitReason | None) -> WaitReason | None:
    """A reason with what programs outside the pool have, where that matters."""
    others = nodes.beside()
    if why is None or not others or why.kind != Reason.GPUS_FULL:
        return why
    return msgspec.structs.replace(why, text=f"{why.text}; {others}")
