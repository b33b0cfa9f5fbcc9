"""What could have to leave, known before it has to; and an arena that is not what it was."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import SimulatedNode


def node_of(arena: int = 1000) -> SimulatedNode:
    return SimulatedNode([GpuSpec(0, 100, 100)], Settings(arena_bytes=arena))


def test_who_fits_needs_nothing() -> None:
    node = node_of()
    node.start({0: [40]})
    node.start({0: [60]})
    assert node.arbiter.host_needs() == {}


def test_no_more_of_anybody_leaves_than_all_have_too_much() -> None:
    node = node_of()
    node.start({0: [80]})
    node.start({0: [25]})
    assert node.arbiter.host_needs() == {1: 5, 2: 5}


def test_it_is_known_before_the_first_allocation_of_the_second() -> None:
    node = node_of()
    node.start({0: [80]})
    newcomer = node.join()
    newcomer.attach(0, 0, 100)
    node.settle()
    assert node.arbiter.host_needs() == {1: 60}


def test_what_cannot_leave_needs_no_room_elsewhere() -> None:
    node = node_of()
    for size in (30, 60, 30):
        node.start({0: [size]})
    node.feed(ev.Pinned(1))
    assert node.arbiter.host_needs() == {2: 20, 3: 20}


def test_an_arena_that_shrinks_refuses_what_is_new_and_keeps_what_is_there() -> None:
    node = node_of(50)
    node.start({0: [90]})
    tenant = node.start({0: [50]})
    node.feed(ev.ArenaSet(10, "of 50 B, because the host is short of memory"))
    tenant.allocate(0, [5])
    node.settle()
    assert [no.code for no in tenant.refusals] == ["capacity"]
    assert "short of memory" in tenant.refusals[0].text
    assert node.view(tenant).gpus[0].allocated_bytes == 50
    node.feed(ev.ArenaSet(50))
    tenant.allocate(0, [5])
    node.settle()
    assert len(tenant.refusals) == 1
