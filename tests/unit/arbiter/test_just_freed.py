"""What a program freed just now is still its own: it has not grown if it allocates that again."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.state.freed import FREED_S, Freed
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode, handle
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


def test_a_request_that_is_due_comes_before_the_lease_that_a_drain_ends_the_wait_for() -> None:
    arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000))
    drains, freed, grows, urgent = 1, 2, 3, 4

    def say(now_s: float, event: ev.Event) -> list[do.Instruction]:
        return handle(arbiter, now_s, event)

    for number, size in ((drains, 20), (freed, 60), (grows, 5), (urgent, 10)):
        say(0.0, ev.Hello(number, share=Share(latency=number == urgent)))
        say(0.0, ev.Attach(number, 0, 0, 0, 100, allocated_bytes=size, resident_bytes=size))
    assert do.Grant(drains, 1) in say(1.0, ev.LeaseRequest(drains))
    assert do.Grant(grows, 1) in say(1.0, ev.LeaseRequest(grows))
    say(2.0, ev.Free(freed, 0, 60, 60))
    assert do.Admitted(grows, 0, 1) in say(2.0, ev.AllocRequest(grows, 0, 1, 40))
    assert answers(say(2.0, ev.AllocRequest(urgent, 0, 1, 50, True))) == []
    assert {do.Revoke(drains, 1), do.Revoke(grows, 1)} <= {*say(2.0, ev.LeaseRequest(urgent))}
    say(2.0, ev.Drained(grows, 1, 0, 45))
    # The time is over, and the look that is due then comes later.
    assert say(2.0 + FREED_S, ev.Drained(drains, 1, 0, 20)) == [do.Evict(grows, 0, 25)]
    told = say(3.1, ev.Evicted(grows, 0, 25, 20, last=True))
    assert told[:2] == [do.Grant(urgent, 1), do.Admitted(urgent, 0, 1)]
