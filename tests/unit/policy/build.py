"""Small clusters, and what was decided of them, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moiety.policy.model.cluster import GpuDevice, Link, Node, gpus
from moiety.policy.model.decisions import Decision, Eviction, Move, Placement, PlacementRefusal
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Spot, Task
from moiety.policy.model.workloads import Affinity, Domain, Shape, Subgroup, Workload

A = Queue("a", quota=Amounts(gpu_milli=2000), created_s=0)
B = Queue("b", quota=Amounts(gpu_milli=2000), created_s=1)


def node(name: str = "n", count: int = 4, rack: str = "", **more: Any) -> Node:
    topology = (("rack", rack),) if rack else ()
    return Node(name, 64000, 1024, more.pop("gpus", gpus(count)), "T4", 16000, topology=topology)


def pairs() -> tuple[GpuDevice, ...]:
    """Four GPUs of which 0 and 1, and 2 and 3, are linked by NVLink."""
    return tuple(
        GpuDevice(at, (Link(at ^ 1, "nvlink", 300), Link((at + 2) % 4, "pcie", 30)))
        for at in range(4)
    )


def work(
    name: str,
    queue: str = "a",
    count: float = 1,
    tasks: int = 1,
    least: int | None = None,
    *,
    domain: Domain | None = None,
    whole: Domain | None = None,
    company: Affinity | None = None,
    **more: Any,
) -> Workload:
    """`tasks` tasks of `count` GPUs each; `domain` of the subgroup, `whole` of the workload."""
    shape = Shape(0, 0, max(1, int(count)), 1000 if count >= 1 else round(count * 1000))
    least = tasks if least is None else least
    main = Subgroup("main", shape, tasks, least, domain, company or Affinity())
    return Workload(name, (main,), queue, domain=whole, **more)


def runs(workload: Workload, *places: tuple[int, ...], on: str = "n", **more: Any) -> list[Running]:
    shape = workload.subgroups[0].shape
    milli = shape.gpu_milli
    return [
        Running(Task(workload.name, "main", at), shape, Spot(on, place, milli), **more)
        for at, place in enumerate(places)
    ]


def placed(decisions: Sequence[Decision]) -> dict[str, Spot]:
    return {str(each.task): each.spot for each in decisions if isinstance(each, Placement)}


def evicted(decisions: Sequence[Decision]) -> list[str]:
    return sorted(str(each.task) for each in decisions if isinstance(each, Eviction))


def moved(decisions: Sequence[Decision]) -> list[str]:
    return sorted(str(each.task) for each in decisions if isinstance(each, Move))


def refused(decisions: Sequence[Decision]) -> dict[str, PlacementRefusal]:
    return {each.task.workload: each for each in decisions if isinstance(each, PlacementRefusal)}
