"""What was decided: typed answers that say who, where and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from moiety.policy.model.snapshot import Spot, Task


class Reason(StrEnum):
    """Why a task cannot be placed. What applies to more nodes comes first in a refusal."""

    NO_NODES = "no-nodes"
    """the pool has none"""
    MODEL = "model"
    """the nodes have GPUs of other models, or none"""
    GPU_SIZE = "gpu-size"
    """a GPU has less memory than is asked of it"""
    NODE_SIZE = "node-size"
    """no node would be large enough even if it were empty"""
    GPUS_FULL = "gpus-full"
    """too little is left of too many GPUs"""
    CPU_FULL = "cpu-full"
    MEMORY_FULL = "memory-full"
    NOT_ALLOWED = "not-allowed"
    """the nodes that have room are not among those that may be used"""
    TOPOLOGY = "topology"
    """no one rack (or node, or set of linked GPUs) has room for all that belong together"""
    NOT_YET = "not-yet"
    """the cycle ended before it came to it, or it is next"""
    RESERVED = "reserved"
    """the room that there is is kept for who waits for more"""
    QUEUE_LIMIT = "queue-limit"
    """its queue, or one above, would have more than it ever may"""
    QUEUE_QUOTA = "queue-quota"
    """what must not be taken away has to stay within quota"""


@dataclass(frozen=True, slots=True)
class Placement:
    """A pending task gets a place."""

    task: Task
    spot: Spot


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running task gives up its place."""

    task: Task
    spot: Spot
    reason: str
    for_workload: str | None = None
    """who gets the room"""
    is_final: bool = False
    """whether its workload has had its time, and does not wait to run again"""


@dataclass(frozen=True, slots=True)
class Move:
    """A running task goes to another place and keeps its state."""

    task: Task
    source: Spot
    target: Spot
    state_bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlacementRefusal:
    """A task has to wait, or can never run here: the reason, in words and numbers."""

    task: Task
    reason: Reason
    text: str
    """one sentence"""
    is_final: bool = False
    """whether it would not fit the empty cluster either"""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """how many nodes each reason rules out, and what the best node has left"""


@dataclass(frozen=True, slots=True)
class Growth:
    """A dynamic pool wants more nodes, each like its template."""

    pool: str
    nodes: int
    for_workloads: tuple[str, ...]
    """who would have room there and has none now, those served first coming first"""
    ready_s: float
    """when work is expected to begin there, on the snapshot's clock"""
    text: str
    """one sentence"""
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """A node of a dynamic pool can be given back: it is empty, and nobody who waits needs it."""

    pool: str
    node: str
    text: str
    """one sentence"""
    numbers: Mapping[str, int] = field(default_factory=dict)


Scaling = Growth | Release
"""of pools, not of tasks"""
Decision = Placement | Eviction | Move | PlacementRefusal | Scaling
