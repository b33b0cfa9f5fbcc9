"""A process whose memory became unable to leave without a request, and others that have no room."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

DEADLINE_S = 10.0
CALL = "cuFoo"


def node_with(policy: OverduePolicy) -> SimulatedNode:
    settings = Settings(1000, overdue=policy, revoke_deadline_s=DEADLINE_S)
    return SimulatedNode([GpuSpec(0, 100, 100)], settings, compares=True)


@pytest.fixture(params=OverduePolicy)
def node(request: pytest.FixtureRequest) -> SimulatedNode:
    """One GPU of 100 bytes, with each policy."""
    return node_with(request.param)


def holder_and_waiter(
    node: SimulatedNode, size: int = 60
) -> tuple[SimulatedTenant, SimulatedTenant]:
    """Two that do not fit together; the first holds, and the other waits."""
    one, other = node.start({0: [size]}), node.start({0: [size]})
    node.tick(10.0)
    node.settle()
    holder, waiter = (one, other) if one.is_open else (other, one)
    holder.touch()
    node.settle()
    node.told.clear()
    return holder, waiter


def pin(node: SimulatedNode, tenant: SimulatedTenant) -> None:
    """It calls something that its shim does not know."""
    tenant.pin(CALL)
    node.settle()


def run(node: SimulatedNode, seconds: float) -> None:
    """Time passes, and all do what they are told."""
    for _ in range(int(seconds)):
        node.tick(1.0)
        node.settle()


def shut_out_for(node: SimulatedNode, seconds: float) -> tuple[SimulatedTenant, SimulatedTenant]:
    """The holder has pinned all that it has, and the other waits for so long."""
    holder, waiter = holder_and_waiter(node)
    pin(node, holder)
    waiter.touch()
    run(node, seconds)
    return holder, waiter


def reports(node: SimulatedNode) -> list[tuple[int, bool]]:
    """Who was reported, and whether it was to be ended."""
    told = [each for each in node.told if isinstance(each, do.Overdue)]
    assert all(each.state == do.PINNED for each in told)
    return [(each.tenant, each.kill) for each in told]


def test_who_shuts_another_out_is_reported_and_then_treated_as_overdue(
    node: SimulatedNode,
) -> None:
    holder, waiter = holder_and_waiter(node)
    pin(node, holder)
    waiter.touch()
    run(node, DEADLINE_S - 1)
    assert reports(node) == []
    run(node, 2)
    assert reports(node) == [(holder.number, False)]
    assert holder.is_open
    run(node, DEADLINE_S)
    policy = node.settings.overdue
    assert reports(node)[1:] == [(holder.number, policy is OverduePolicy.KILL)]
    assert holder.is_open is (policy is OverduePolicy.REPORT)


def test_who_shuts_another_out_gets_no_lease_before_that_is_over() -> None:
    node = node_with(OverduePolicy.FENCE)
    holder, waiter = shut_out_for(node, 2 * DEADLINE_S + 1)
    holder.touch()
    run(node, 3)
    assert f"it shuts out others: its memory cannot leave ({CALL})" in node.view(holder).reason
    node.kill(waiter)
    node.settle()
    assert holder.is_open, "it shuts nobody out any more"
    assert holder.resident_bytes(0) == 60


def test_who_waited_goes_on_when_the_other_was_killed() -> None:
    node = node_with(OverduePolicy.KILL)
    holder, waiter = shut_out_for(node, 2 * DEADLINE_S + 1)
    assert reports(node)[-1] == (holder.number, True), "the agent ends it"
    assert not waiter.is_open
    node.kill(holder)
    node.settle()
    assert waiter.is_open


def test_nothing_is_done_while_nobody_waits(node: SimulatedNode) -> None:
    holder, waiter = holder_and_waiter(node)
    pin(node, holder)
    run(node, 5 * DEADLINE_S)
    assert reports(node) == []
    waiter.touch()
    run(node, DEADLINE_S / 2)
    node.kill(waiter)
    run(node, 5 * DEADLINE_S)
    assert reports(node) == []
    assert holder.is_open


def test_nothing_is_done_where_all_fit(node: SimulatedNode) -> None:
    holder = node.start({0: [60]})
    pin(node, holder)
    other = node.start({0: [40]})
    run(node, 5 * DEADLINE_S)
    assert reports(node) == []
    assert holder.is_open
    assert other.is_open


def test_what_a_share_keeps_may_stay(node: SimulatedNode) -> None:
    holder, waiter = holder_and_waiter(node)
    node.feed(ev.ShareSet(holder.number, Share(memory_bytes=60)))
    pin(node, holder)
    waiter.touch()
    run(node, 5 * DEADLINE_S)
    assert reports(node) == []


def test_the_latest_pins_are_in_the_way(node: SimulatedNode) -> None:
    third = node.start({0: [60]})
    first, second = node.start({0: [30]}), node.start({0: [30]})
    while not (first.is_open and second.is_open):
        first.touch()
        second.touch()
        run(node, 1)
    node.told.clear()
    pin(node, first)
    pin(node, second)
    third.touch()
    run(node, DEADLINE_S + 2)
    assert {number for number, _ in reports(node)} == {second.number}


def test_memory_that_can_leave_again_ends_it() -> None:
    node = node_with(OverduePolicy.FENCE)
    holder, waiter = holder_and_waiter(node)
    pin(node, holder)
    waiter.touch()
    run(node, 3 * DEADLINE_S)
    assert not holder.is_open
    node.feed(ev.Unpin(holder.number, ev.EVERY_GPU, 0))
    run(node, 1)
    assert waiter.is_open
    holder.touch()
    run(node, 10)
    assert "shuts out" not in node.view(holder).reason


def test_who_asked_is_left_alone() -> None:
    node = node_with(OverduePolicy.KILL)
    holder = node.start({0: [60]})
    pin(node, holder)
    told = node.feed(ev.PinRequest(holder.number, ev.EVERY_GPU, 7, call="cuGLCtxCreate"))
    assert any(isinstance(each, do.Admitted) for each in told)
    assert not node.arbiter._context.ledger.unasked_pins
    node.feed(ev.Pinned(holder.number, CALL))
    assert not node.arbiter._context.ledger.unasked_pins, "all of it stays already, as it asked"
