"""All that one decision of the engine is made from, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.queues import Queue
from moiety.policy.model.workloads import Shape, Workload


class Task(NamedTuple):
    """One task of a workload."""

    workload: str
    subgroup: str
    index: int  # type: ignore[assignment]  # this hides tuple.index, which is not used

    def __str__(self) -> str:
        return f"{self.workload}/{self.subgroup}/{self.index}"


class Spot(NamedTuple):
    """A place: a node, and the GPUs of it that the task has."""

    node: str
    gpus: tuple[int, ...] = ()
    gpu_milli: int = 0
    """Thousandths of each GPU."""


@dataclass(frozen=True, slots=True)
class Running:
    """A task that has a place."""

    task: Task
    shape: Shape
    spot: Spot
    since_s: float = 0.0
    state_bytes: int = 0
    """Bytes that a move or a suspension would have to carry; 0: it cannot be suspended."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A node of a dynamic pool that was asked for and is not there yet."""

    pool: str
    ready_s: float
    """When work is expected to begin on it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at `now_s`. Raises InvalidValue where names are ambiguous."""

    nodes: tuple[Node, ...]
    workloads: tuple[Workload, ...] = ()
    """All workloads, pending and running."""
    running: tuple[Running, ...] = ()
    queues: tuple[Queue, ...] = ()
    pools: tuple[Pool, ...] = (Pool(),)
    now_s: float = 0.0
    seed: int = 0
    monday_s: float = 0.0
    """A Monday's midnight on the same clock: times of day count from there."""
    used: Mapping[str, float] = field(default_factory=dict)
    """GPU thousandths that each queue had in the mean of late, older use counting less."""
    credit: Mapping[str, float] = field(default_factory=dict)
    """GPU-seconds that each queue had less than its part of late (deficit.py); below 0: more."""
    exchanged_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """When the first queue of a pair last got room by the end of a gang of the second one that was
    larger than what was due to that: at most one such exchange an hour."""
    waits_since: Mapping[str, float] = field(default_factory=dict)
    """Since when a workload could begin if it had room, by name; without an entry: since it was
    submitted. Work can be held, depend on other work, or have run before."""
    host_free: Mapping[str, int] = field(default_factory=dict)
    """Bytes of host memory that suspended tasks may take, by node; empty: no task is suspended."""
    starting: tuple[Starting, ...] = ()
    empty_since: Mapping[str, float] = field(default_factory=dict)
    """Since when nothing runs on a node, by its name; a node without an entry is not given back."""

    def at(self, now_s: float) -> Snapshot:
        """The same at another time."""
        twin = object.__new__(Snapshot)
        for name in FIELDS:
            object.__setattr__(twin, name, getattr(self, name))
        object.__setattr__(twin, "now_s", now_s)
        return twin

    def __post_init__(self) -> None:
        for kind, names in (
            ("nodes", [node.name for node in self.nodes]),
            ("workloads", [workload.name for workload in self.workloads]),
            ("pools", [pool.name for pool in self.pools]),
        ):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise InvalidValue(f"there are two {kind} of the name {name}")
                seen.add(name)
        dynamic = {pool.name for pool in self.pools if pool.is_dynamic}
        for each in self.starting:
            if each.pool not in dynamic:
                raise InvalidValue(f"a node of pool {each.pool} starts, which is not dynamic")


FIELDS: Final = tuple(each.name for each in fields(Snapshot))
