"""Which work the engine suspends instead of ending it."""

from __future__ import annotations

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import Eviction
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape
from moiety.policy.preempt.suspension import suspended


def evictions(*names: str) -> list[Eviction]:
    return [Eviction(Task(name, "main", 0), Spot("n", (0,), WHOLE_GPU), "yields") for name in names]


def snapshot(free: int | None, **carries: int) -> Snapshot:
    shape = Shape(0, 0, 1, WHOLE_GPU)
    running = tuple(
        Running(Task(name, "main", 0), shape, Spot("n", (0,), WHOLE_GPU), state_bytes=size)
        for name, size in carries.items()
    )
    return Snapshot((), (), running, host_free={} if free is None else {"n": free})


def kinds(found: list[Eviction]) -> list[bool]:
    return [each.is_suspension for each in found]


def test_the_engine_suspends_as_long_as_the_host_has_room() -> None:
    seen = snapshot(100, a=60, b=60, c=40)
    assert kinds(suspended(evictions("a", "b", "c"), seen)) == [True, False, True]


def test_what_cannot_be_suspended_ends() -> None:
    assert kinds(suspended(evictions("a", "b"), snapshot(100, a=0, b=10))) == [False, True]
    assert kinds(suspended(evictions("a"), snapshot(None, a=10))) == [False]
