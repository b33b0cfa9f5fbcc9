"""What a pool has: nodes with their GPUs, the links between them, and how the pool places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from moiety.model.errors import InvalidValue

WHOLE_GPU: Final = 1000
"""A whole GPU in thousandths, the unit of all parts of GPUs here."""
GPUS_MAX: Final = 63
"""The most GPUs of one node; the last six bits of a score name one of them."""


class Placing(StrEnum):
    """The rule by which a pool chooses the node of a workload (docs/explanation-placement.md)."""

    DEFAULT = "default"
    """Least fragmentation, with scarce models, CPU and memory in mind."""
    FGD = "fgd"
    """Fragmentation gradient descent as published (Weng et al., USENIX ATC '23)"""
    BEST_FIT = "best-fit"
    """The node that is left with the least CPU and GPU, as in the same publication."""
    BIN_PACK = "bin-pack"
    """The node with the largest part of its GPUs in use."""
    SPREAD = "spread"
    """The node with the smallest part of its GPUs in use, by measurement where there is one."""
    WORST_FIT = "worst-fit"
    """The node that is left with the most CPU and GPU."""
    RANDOM = "random"
    """Any node that has room; the seed decides."""


class Choosing(StrEnum):
    """How a GPU is chosen within the node."""

    RULE = "rule"
    """As the pool's rule for nodes counts: it has tried each GPU."""
    BEST_FIT = "best-fit"
    """The fullest GPU that has room."""
    WORST_FIT = "worst-fit"
    """The emptiest GPU."""
    LEAST_BUSY = "least-busy"
    """The one that was measured to be least busy, in tenths; then, or without, the emptiest."""
    FIRST = "first"
    """The first that has room."""
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Link:
    """A connection from one GPU of a node to another."""

    peer: int
    kind: str = "pcie"
    """`pcie`, `nvlink` or `nvswitch`"""
    gbps: float = 0.0
    """Gigabytes a second, each way; 0: not known."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One device of a node."""

    index: int
    links: tuple[Link, ...] = ()
    utilisation: float | None = None
    """The measured part of the time in which it was busy lately, 0 to 1; None: not measured."""
    is_healthy: bool = True
    """Nothing is placed on an unhealthy GPU."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with GPUs of one model.

    A machine with GPUs of several models is one node for each model, with its part of the CPUs and
    the memory, in a domain of `topology` that they share: work that belongs on one machine asks for
    that domain.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: tuple[GpuDevice, ...] = ()
    model: str = ""
    """The model of its GPUs; empty if it has none."""
    gpu_memory_mib: int = 0
    """Memory of each GPU; 0: not known."""
    pool: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    topology: tuple[tuple[str, str], ...] = ()
    """The domains that it is in, from the largest to the smallest: (("rack", "r7"), ...)"""

    def __post_init__(self) -> None:
        for name in ("cpu_milli", "memory_mib", "gpu_memory_mib"):
            if getattr(self, name) < 0:
                raise InvalidValue(f"node {self.name}: {name} is negative: {getattr(self, name)}")
        if len(self.gpus) > GPUS_MAX:
            raise InvalidValue(
                f"node {self.name} has {len(self.gpus)} GPUs; at most {GPUS_MAX} can be placed on"
            )
        if [gpu.index for gpu in self.gpus] != list(range(len(self.gpus))):
            raise InvalidValue(f"node {self.name}: its GPUs are not numbered 0, 1, 2 ...")
        if self.gpus and not self.model:
            raise InvalidValue(f"node {self.name} has GPUs of no model")


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that are filled by one rule; a node belongs to one pool."""

    name: str = "default"
    placing: Placing = Placing.DEFAULT
    choosing: Choosing = Choosing.RULE
    is_dynamic: bool = False
    """Whether nodes may be added and removed as demand asks."""
    nodes_min: int = 0
    """The size below which a dynamic pool gives no node back."""
    nodes_max: int | None = None
    """The most nodes of a dynamic pool, including starting ones; None: no bound."""
    template: Node | None = None
    """The model of each node that is started; its name and pool do not matter."""
    domains: tuple[tuple[tuple[str, str], ...], ...] = ()
    """The domains of the nodes that are next to be there, in their order, where they are known; all
    others have those of the template."""
    start_s: float = 300.0
    """The time from the request of a node until work can begin on it."""
    idle_s: float = 600.0
    """How long a node is empty before it is given back."""

    def __post_init__(self) -> None:
        for name in ("nodes_min", "start_s", "idle_s"):
            if getattr(self, name) < 0:
                raise InvalidValue(f"pool {self.name}: {name} is negative: {getattr(self, name)}")
        if self.nodes_max is not None and self.nodes_max < self.nodes_min:
            raise InvalidValue(
                f"pool {self.name}: at most {self.nodes_max} nodes, and at least {self.nodes_min}"
            )
        if self.is_dynamic and self.template is None:
            raise InvalidValue(
                f"pool {self.name} is dynamic, but its new nodes are not described",
                "a template",
            )


def gpus(count: int) -> tuple[GpuDevice, ...]:
    """`count` GPUs without links or measurements."""
    return tuple(GpuDevice(index) for index in range(count))
