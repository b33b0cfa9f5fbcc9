"""Workloads, the shapes of their tasks, and where these may and may not run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from zlib import crc32

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class Shape:
    """What one task asks of one node. Equal shapes share their scores."""

    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: int = 0
    """The number of different GPUs."""
    gpu_milli: int = 0
    """Thousandths of each GPU; 1000 is a whole GPU."""
    gpu_memory_mib: int = 0
    """Memory of each GPU. Without `gpu_milli`, a task takes as large a part of the GPU; with it,
    memory counts apart: much memory and little compute leave compute to others, and vice versa."""
    models: frozenset[str] = frozenset()
    """The GPU models that will do; empty: all."""
    is_apart: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether it asks for memory and compute of a GPU apart."""
    _hash: int = field(default=0, init=False, repr=False, compare=False)
    """Kept because shapes are looked up all the time; the same in each process."""

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        numbers = (
            self.cpu_milli,
            self.memory_mib,
            self.gpus,
            self.gpu_milli,
            self.gpu_memory_mib,
            len(self.models),
            crc32(" ".join(sorted(self.models)).encode()),
        )
        object.__setattr__(self, "_hash", hash(numbers))
        object.__setattr__(self, "is_apart", bool(self.gpu_memory_mib and self.gpu_milli))
        for name in ("cpu_milli", "memory_mib", "gpus", "gpu_milli", "gpu_memory_mib"):
            if getattr(self, name) < 0:
                raise InvalidValue(f"{name} is negative: {getattr(self, name)}")
        if self.gpu_milli > WHOLE_GPU:
            raise InvalidValue(
                f"gpu_milli is {self.gpu_milli}, but a GPU has {WHOLE_GPU}",
                "the number of GPUs in `gpus`, and the part of each in `gpu_milli`",
            )
        if self.gpus and not (self.gpu_milli or self.gpu_memory_mib):
            raise InvalidValue(f"{self.gpus} GPUs are asked for, but nothing of them")
        if not self.gpus and (self.gpu_milli or self.gpu_memory_mib):
            raise InvalidValue("a part of a GPU is asked for, but on no GPU")

    @property
    def total_milli(self) -> int:
        """Thousandths of GPUs in all, without regard to memory."""
        return self.gpus * self.gpu_milli

    def milli_on(self, gpu_memory_mib: int) -> int:
        """Thousandths of each GPU with this much memory; above 1000: the GPU has too little."""
        if not self.gpu_memory_mib:
            return self.gpu_milli
        if gpu_memory_mib < self.gpu_memory_mib:
            return WHOLE_GPU + 1
        return self.gpu_milli or -(-self.gpu_memory_mib * WHOLE_GPU // gpu_memory_mib)

    def __str__(self) -> str:
        parts = []
        if self.gpus:
            of = f"{self.gpu_milli / WHOLE_GPU:g}" if self.gpu_milli else "a part"
            parts.append(
                f"{self.gpus} GPU{'s' * (self.gpus > 1)}"
                if self.gpu_milli == WHOLE_GPU
                else f"{of} of {self.gpus} GPU{'s' * (self.gpus > 1)}"
            )
        if self.gpu_memory_mib:
            parts.append(f"{self.gpu_memory_mib} MiB of GPU memory each")
        if self.models:
            parts.append(f"of model {' or '.join(sorted(self.models))}")
        if self.cpu_milli:
            parts.append(f"{self.cpu_milli / 1000:g} CPUs")
        if self.memory_mib:
            parts.append(f"{self.memory_mib} MiB of memory")
        return ", ".join(parts) or "a task"


class Strictness(StrEnum):
    """Whether a domain is required or only preferred."""

    REQUIRED = "required"
    PREFERRED = "preferred"


@dataclass(frozen=True, slots=True)
class Domain:
    """The tasks belong into one domain of the topology, such as one rack."""

    level: str
    """`rack`, `node`, `nvlink`, or another level that nodes name."""
    strictness: Strictness = Strictness.REQUIRED


@dataclass(frozen=True, slots=True)
class Affinity:
    """Which tasks share a GPU with a task by their labels, and which GPUs will do."""

    affinity: str | None = None
    """It runs together with tasks of the same label."""
    anti_affinity: str | None = None
    """It never runs together with tasks of the same label."""
    exclusion: str | None = None
    """Only tasks of the same label run on its GPUs."""
    gpus: frozenset[tuple[str, int]] | None = None
    """By node and index: the only GPUs that will do; None: all."""


NO_LABELS: Final = Affinity()


@dataclass(frozen=True, slots=True)
class Subgroup:
    """Tasks of a workload that are alike."""

    name: str
    shape: Shape
    tasks: int = 1
    """The number of tasks that are wanted."""
    tasks_min: int = 1
    """The fewest tasks with which it runs."""
    domain: Domain | None = None
    company: Affinity = NO_LABELS

    def __post_init__(self) -> None:
        if not 0 <= self.tasks_min <= self.tasks:
            raise InvalidValue(
                f"subgroup {self.name}: at least {self.tasks_min} of {self.tasks} tasks"
            )


@dataclass(frozen=True, slots=True)
class Workload:
    """One submission: a gang whose subgroups start together, or not at all."""

    name: str
    subgroups: tuple[Subgroup, ...]
    queue: str = "default"
    pools: frozenset[str] = frozenset()
    """The pools in which it may run; empty: all."""
    user: str = ""
    priority: int = 0
    is_preemptible: bool = True
    is_opportunistic: bool = False
    """It runs on room that no other workload wants, ends for any other, and counts for no queue."""
    submitted_s: float = 0.0
    max_run_s: float | None = None
    """The most seconds that it runs, above 0; None: without bound."""
    domain: Domain | None = None
    """The domain of all its subgroups together."""

    def __post_init__(self) -> None:
        if not self.subgroups:
            raise InvalidValue(f"workload {self.name} has no tasks")
        names = [subgroup.name for subgroup in self.subgroups]
        if len(set(names)) < len(names):
            raise InvalidValue(f"workload {self.name} has two subgroups of one name")
        if self.max_run_s is not None and self.max_run_s <= 0:
            raise InvalidValue(f"workload {self.name} may run for {self.max_run_s:g} s")
        if self.is_opportunistic and not self.is_preemptible:
            raise InvalidValue(
                f"workload {self.name} is opportunistic, so it cannot be kept from ending"
            )

    @property
    def tasks(self) -> int:
        """The number of tasks that it wants in all."""
        return sum(subgroup.tasks for subgroup in self.subgroups)


def single(name: str, shape: Shape, submitted_s: float = 0.0) -> Workload:
    """A workload of one task."""
    return Workload(name, (Subgroup("main", shape),), submitted_s=submitted_s)
