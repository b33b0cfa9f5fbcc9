"""Decisions of a cycle: typed answers with the task, its place and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, overload

from moiety.policy.model.snapshot import Spot, Task


class Reason(StrEnum):
    """Why a task cannot be placed. What applies to more nodes comes first in a refusal."""

    NO_NODES = "no-nodes"
    """The pool has no nodes."""
    MODEL = "model"
    """The nodes have GPUs of other models, or none."""
    GPU_SIZE = "gpu-size"
    """A GPU has less memory than the task asks for."""
    NODE_SIZE = "node-size"
    """No node would be large enough even if it were empty."""
    GPUS_DRAINED = "gpus-drained"
    """Nodes would be large enough, but GPUs of theirs are drained or lost."""
    GPUS_FULL = "gpus-full"
    """Too few GPUs have enough left."""
    CPU_FULL = "cpu-full"
    MEMORY_FULL = "memory-full"
    NOT_ALLOWED = "not-allowed"
    """The nodes that have room may not be used."""
    TOPOLOGY = "topology"
    """No single rack (or node, or set of linked GPUs) has room for all tasks that need one."""
    NOT_YET = "not-yet"
    """The cycle ended before it tried the task, or the task is next."""
    RESERVED = "reserved"
    """The free room is reserved for a larger workload."""
    QUEUE_LIMIT = "queue-limit"
    """Its queue, or one above, would exceed its limit."""
    QUEUE_QUOTA = "queue-quota"
    """Work that must not be taken away has to stay within quota."""


BY_QUEUE: Final = frozenset({Reason.QUEUE_LIMIT, Reason.QUEUE_QUOTA})
"""The reasons that no node changes."""


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
    """The workload that gets the room."""
    is_final: bool = False
    """Whether its workload has had its time, and does not wait to run again."""
    exchange: tuple[str, str] | None = None
    """The queue that gets the room, and the queue to which less is due than this workload takes."""
    is_suspension: bool = False
    """Whether the task is suspended: its memory moves to its host, and it keeps its work."""


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
    """One sentence."""
    is_final: bool = False
    """Whether it would not fit the empty cluster either."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """How many nodes each reason rules out, and what the best node has left."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A dynamic pool wants more nodes, each like its template."""

    pool: str
    nodes: int
    for_workloads: tuple[str, ...]
    """Workloads that would have room there and have none now, in the order of service."""
    ready_s: float
    """When work is expected to begin there, on the snapshot's clock."""
    text: str
    """One sentence."""
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """A node of a dynamic pool can be given back: it is empty, and no waiting workload needs it."""

    pool: str
    node: str
    text: str
    """One sentence."""
    numbers: Mapping[str, int] = field(default_factory=dict)


Scaling = Growth | Release
"""Decisions about pools, not about tasks."""
Decision = Placement | Eviction | Move | PlacementRefusal | Scaling


class CyclePlan(Sequence[Decision]):
    """The decisions of a cycle, and when it wants to be asked again.

    `remarks` finds the decisions that are found when the plan is read: why work waits, and what
    dynamic pools should do.
    """

    def __init__(
        self,
        actions: Iterable[Decision] = (),
        look_s: float | None = None,
        remarks: Callable[[], Iterable[Decision]] | None = None,
    ) -> None:
        self.actions: Sequence[Decision] = tuple(actions)
        """Evictions, moves and placements: to be carried out in this order."""
        self.look_s = look_s
        """On the snapshot's clock, if nothing happens before; None: only when something does."""
        self._remarks = remarks
        self._all: Sequence[Decision] | None = None

    def read(self) -> Sequence[Decision]:
        """All decisions."""
        if self._all is None:
            remarks, self._remarks = self._remarks, None
            self._all = self.actions if remarks is None else (*self.actions, *remarks())
        return self._all

    def __len__(self) -> int:
        return len(self.read())

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.read())

    @overload
    def __getitem__(self, at: int) -> Decision: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Decision]: ...

    def __getitem__(self, at: int | slice) -> Decision | Sequence[Decision]:
        return self.read()[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CyclePlan | list):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it is compared by its decisions
