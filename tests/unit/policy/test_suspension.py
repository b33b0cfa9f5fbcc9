"""Which work the engine suspends instead of ending it."""

from __future__ import annotations

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import Eviction
from moiety.policy.model.snapshot import Running, Spot, Task
from moiety.policy.model.workloads import Shape
from moiety.policy.preempt.suspension import suspended


def evictions(*names: str) -> list[Eviction]:
    return [Eviction(Task(name, "main", 0), Spot("n", (0,), WHOLE_GPU), "yields") for name in names]


def kinds(names: str, free: int | None, **carries: int) -> list[bool]:
    """Which evictions of `names` are suspensions, if tasks carry so many bytes."""
    shape = Shape(0, 0, 1, WHOLE_GPU)
    running = {
        Task(name, "main", 0): Running(
            Task(name, "main", 0), shape, Spot("n", (0,), WHOLE_GPU), state_bytes=size
        )
        for name, size in carries.items()
    }
    found = suspended(evictions(*names), running, {} if free is None else {"n": free})
    return [each.is_suspension for each in found]


def test_the_engine_suspends_as_long_as_the_host_has_room() -> None:
    assert kinds("abc", 100, a=60, b=60, c=40) == [True, False, True]


def test_what_cannot_be_suspended_ends() -> None:
    assert kinds("ab", 100, a=0, b=10) == [False, True]
    assert kinds("a", None, a=10) == [False]
