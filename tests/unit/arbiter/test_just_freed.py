"""What a program freed just now is still its own: it has not grown if it allocates that again."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.state.freed import FREED_S, Freed
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

EXPORT = ev.PinRequest(1, 0, 77, 60, "cuIpcGetMemHandle")


def answers(told: list[do.Instruction]) -> list[do.Admitted | do.Refused]:
    return [each for each in told if isinstance(each, do.Admitted | do.Refused)]


def exporter_beside(node: SimulatedNode) -> SimulatedTenant:
    """A program with 60, and the other one, with 60 that it frees now."""
    node.start({0: [60]})
    other = node.start({0: [60]})
    node.tick(1000.0)
    node.settle()
    other.free(other.blocks[0])
    node.hear(other)
    return other


def test_a_pin_waits_for_what_was_freed_and_is_refused_once_it_is_back(node: SimulatedNode) -> None:
    other = exporter_beside(node)
    assert answers(node.feed(EXPORT)) == []
    block = other.allocate(0, [60])
    node.settle()
    node.now_s += FREED_S
    (told,) = [each for each in answers(node.feed(ev.Tick())) if each.serial == 77]
    assert isinstance(told, do.Refused)
    node.settle()
    node.tick(1000.0)
    node.settle()
    assert block.admitted
    assert not other.refusals


def test_a_pin_is_admitted_once_the_moment_is_over(node: SimulatedNode) -> None:
    exporter_beside(node)
    assert answers(node.feed(EXPORT)) == []
    assert node.arbiter.deadline_s is not None
    assert node.arbiter.deadline_s <= node.now_s + FREED_S
    assert do.Admitted(1, 0, 77) in node.tick(FREED_S)


def test_no_other_takes_the_host_memory_of_what_was_freed() -> None:
    node = SimulatedNode([GpuSpec(0, 100, 100)], Settings(arena_bytes=50))
    node.start({0: [90]})
    owner = node.start({0: [60]})
    node.tick(1000.0)
    node.settle()
    taker = node.start({0: []})
    owner.free(owner.blocks[0])
    node.hear(owner)
    taker.allocate(0, [60])
    node.settle()
    owner.allocate(0, [60])
    node.settle()
    node.tick(1000.0)
    node.settle()
    assert not owner.refusals
    assert [each.code for each in taker.refusals] == ["capacity"]


def test_a_request_is_forgotten_with_its_process(node: SimulatedNode) -> None:
    exporter_beside(node)
    assert answers(node.feed(EXPORT)) == []
    node.kill(node.tenants[1])
    assert answers(node.tick(2 * FREED_S)) == []


@pytest.mark.parametrize("size", [1, 60])
def test_what_is_allocated_again_counts_once(node: SimulatedNode, size: int) -> None:
    other = exporter_beside(node)
    other.allocate(0, [size])
    node.settle()
    on = node.arbiter._context.ledger.tenants[other.number].gpus[0]
    assert on.reach_bytes == 60


def test_what_was_freed_counts_for_a_moment_in_few_numbers() -> None:
    freed = Freed()
    for step in range(100):
        freed.add(step / 100, 1)
    assert freed.total == 100
    assert len(freed._by_time) <= 11
    freed.use(30)
    assert freed.total == 70
    freed.expire(1.5)
    assert 40 <= freed.total <= 60
    freed.expire(3.0)
    assert (freed.total, freed.until_s) == (0, float("-inf"))
