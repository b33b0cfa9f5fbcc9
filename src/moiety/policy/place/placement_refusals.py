"""Why a task has no place, in one true sentence with numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import PlacementRefusal, Reason
from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Bools, Mask, NodeArrays

WORDS = {
    Reason.MODEL: "{count} have GPUs of other models or none",
    Reason.GPU_SIZE: "{count} have GPUs with too little memory",
    Reason.NODE_SIZE: "{count} are too small even when empty",
    Reason.GPUS_DRAINED: "{count} have GPUs that are drained or lost, and too few others",
    Reason.GPUS_FULL: "{count} have too little of their GPUs left",
    Reason.CPU_FULL: "{count} have too few CPUs left",
    Reason.MEMORY_FULL: "{count} have too little memory left",
    Reason.NOT_ALLOWED: "{count} have room but may not be used for it",
}
OF_ONE: Final = {
    Reason.MODEL: "it has GPUs of another model or none",
    Reason.GPU_SIZE: "it has GPUs with too little memory",
    Reason.NODE_SIZE: "it is too small even when empty",
    Reason.GPUS_DRAINED: "it has GPUs that are drained or lost, and too few others",
    Reason.GPUS_FULL: "it has too little of its GPUs left",
    Reason.CPU_FULL: "it has too few CPUs left",
    Reason.MEMORY_FULL: "it has too little memory left",
    Reason.NOT_ALLOWED: "it has room but may not be used for it",
}
"""The same where there is one node."""


def refuse(
    cluster: NodeArrays, shape: Shape, task: Task, mask: Mask | None = None
) -> PlacementRefusal:
    """Say why no node takes this task; only for a task for which `Placer.find` found none.

    Each node counts for the first reason that rules it out, in the order of `Reason`: if that
    reason is removed on one of its nodes, the task has room there, or meets the next reason.
    """
    if not len(cluster):
        return PlacementRefusal(task, Reason.NO_NODES, "the pool has no nodes", is_final=True)
    ruled_out = _ruled_out(cluster, shape, mask)
    counts = {reason: int(nodes.sum()) for reason, nodes in ruled_out.items() if nodes.any()}
    waits = [reason for reason in counts if reason not in _FINAL]
    is_final = not waits
    reason = max(waits or counts, key=lambda each: counts[each])
    numbers = {str(each): count for each, count in counts.items()} | _best(cluster, shape)
    if len(cluster) == 1:
        cannot = "the only node can never take" if is_final else "the only node cannot take"
        text = f"{cannot} {shape}{'' if is_final else ' now'}: {OF_ONE[reason]}"
    else:
        parts = [
            WORDS[each].format(count=count)
            for each, count in sorted(counts.items(), key=lambda item: -item[1])
        ]
        never = ", and would not if nothing ran there" if is_final else ""
        text = f"none of {len(cluster)} nodes can take {shape} now{never}: {', '.join(parts)}"
    if is_final:
        text += f"; {_most(cluster, shape)}"
    return PlacementRefusal(task, reason, text, is_final, numbers)


def _most(cluster: NodeArrays, shape: Shape) -> str:
    """The most that a node has when it is empty, of what the shape asks for."""
    parts = []
    if shape.gpus:
        count = int((cluster.installed > 0).sum(axis=1).max())
        parts.append(f"{count} GPU{'s' * (count != 1)}")
    if shape.gpu_memory_mib:
        parts.append(f"{int(cluster.gpu_memory.max())} MiB of memory on a GPU")
    if shape.cpu_milli:
        parts.append(f"{int(cluster.cpu.max()) / 1000:g} CPUs")
    if shape.memory_mib:
        parts.append(f"{int(cluster.memory.max())} MiB of memory")
    models = [model for model in cluster.models if model]
    of = f" ({', '.join(models)})" if shape.models and models else ""
    has = "it has" if len(cluster) == 1 else "the most that one of them has is"
    return f"{has} {', '.join(parts) or 'nothing of it'}{of}"


_FINAL = frozenset({Reason.MODEL, Reason.GPU_SIZE, Reason.NODE_SIZE})


def _ruled_out(cluster: NodeArrays, shape: Shape, mask: Mask | None) -> dict[Reason, Bools]:
    """For each reason, the nodes that it rules out first."""
    open_: Bools = np.ones(len(cluster), np.bool_)
    found: dict[Reason, Bools] = {}

    def rule_out(reason: Reason, nodes: Bools) -> None:
        nonlocal open_
        found[reason] = open_ & nodes
        open_ = open_ & ~nodes

    models = cluster.acceptable(shape)
    if models is not None:
        rule_out(Reason.MODEL, ~models[cluster.model])
    elif shape.gpus:
        rule_out(Reason.MODEL, cluster.installed.sum(axis=1) == 0)
    if shape.gpu_memory_mib:
        rule_out(Reason.GPU_SIZE, np.asarray(cluster.milli(shape)) > WHOLE_GPU)
    rule_out(Reason.NODE_SIZE, ~cluster.could_ever(shape))
    if shape.gpus and cluster.has_unhealthy:
        rule_out(Reason.GPUS_DRAINED, ~cluster.could_ever(shape, healthy=True))
    if shape.gpus:
        rule_out(Reason.GPUS_FULL, ~_gpus_fit(cluster, shape))
    rule_out(Reason.CPU_FULL, cluster.free_cpu < shape.cpu_milli)
    rule_out(Reason.MEMORY_FULL, cluster.free_memory < shape.memory_mib)
    if mask is not None:
        rule_out(Reason.NOT_ALLOWED, ~cluster.has_room_within(shape, mask))
    return found


def _gpus_fit(cluster: NodeArrays, shape: Shape) -> Bools:
    fits: Bools = cluster.enough(shape).sum(axis=1) >= shape.gpus
    return fits


def _best(cluster: NodeArrays, shape: Shape) -> dict[str, int]:
    """What the best nodes of a fitting model and size have left."""
    models = cluster.acceptable(shape)
    suitable = cluster.could_ever(shape)
    if models is not None:
        suitable &= models[cluster.model]
    if not suitable.any():
        return {}
    best = {
        "most_free_cpu_milli": int(cluster.free_cpu[suitable].max()),
        "most_free_memory_mib": int(cluster.free_memory[suitable].max()),
    }
    if shape.gpus:
        enough = cluster.enough(shape)[suitable]
        best["most_free_gpu_milli"] = int(cluster.left_total[suitable].max())
        best["most_gpus_with_enough_left"] = int(enough.sum(axis=1).max())
    return best
