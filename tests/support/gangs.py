"""Gangs on a simulated node with small GPUs: how they start, take turns and wait."""

from __future__ import annotations

from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

CAPACITY = 10


def node(gpus: int = 1, **settings: object) -> SimulatedNode:
    """A node with GPUs of `CAPACITY` bytes, on which turns are short."""
    chosen: dict[str, object] = {"arena_bytes": 1000, "turn_factor": 0.0} | settings
    return SimulatedNode(
        [GpuSpec(gpu, CAPACITY, CAPACITY) for gpu in range(gpus)],
        Settings(**chosen),  # type: ignore[arg-type]
    )


def start(
    node: SimulatedNode, gang: str, *places: dict[int, list[int]], size: int = 0
) -> list[SimulatedTenant]:
    """A gang of as many processes as there are places, each with memory on some GPUs."""
    members = [node.join(gang, size or len(places)) for _ in places]
    for member, place in zip(members, places, strict=True):
        for gpu in place:
            member.attach(gpu, 0, CAPACITY)
    node.settle()
    for member, place in zip(members, places, strict=True):
        for gpu, chunks in place.items():
            member.allocate(gpu, chunks)
    node.settle()
    touch(node, *members)
    return members


def touch(node: SimulatedNode, *tenants: SimulatedTenant) -> None:
    """All of them want the GPU, and everybody does what there is to do."""
    for tenant in tenants:
        tenant.touch()
    node.settle()


def pass_turns(node: SimulatedNode, seconds: float = 0.2) -> None:
    """Time for others to have their turn."""
    node.tick(seconds)
    node.settle()


def reason(node: SimulatedNode, tenant: SimulatedTenant) -> str:
    """Why a process waits."""
    return node.view(tenant).reason


def open_of(*tenants: SimulatedTenant) -> list[bool]:
    """Which of them hold their lease."""
    return [tenant.is_open for tenant in tenants]
