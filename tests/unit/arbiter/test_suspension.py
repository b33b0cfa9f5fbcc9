"""Suspended processes: no turns, no promises, nothing on the GPU that can leave, until resumed."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import restore, take
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def node_with(arena_bytes: int = 1000) -> SimulatedNode:
    return SimulatedNode([GpuSpec(0, 120, 100)], Settings(arena_bytes), compares=True)


@pytest.fixture
def node() -> SimulatedNode:
    """One GPU with 100 bytes for data."""
    return node_with()


def may_submit(tenant: SimulatedTenant) -> bool:
    """Whether its gate is open."""
    return tenant.is_open


def reports(node: SimulatedNode) -> list[tuple[int, int]]:
    """Who was reported as suspended, with what stays."""
    told = [each for each in node.told if isinstance(each, do.Suspended)]
    return [(each.tenant, each.staying_bytes) for each in told]


def suspend(node: SimulatedNode, tenant: SimulatedTenant) -> None:
    node.suspend(tenant)
    node.settle()


def resume(node: SimulatedNode, tenant: SimulatedTenant) -> None:
    node.suspend(tenant, suspended=False)
    node.settle()


def test_a_holder_is_revoked_and_all_of_its_memory_leaves_although_nobody_needs_room(
    node: SimulatedNode,
) -> None:
    tenant = node.start({0: [20, 20]})
    assert may_submit(tenant)
    suspend(node, tenant)
    assert not may_submit(tenant)
    assert tenant.resident_bytes(0) == 0
    view = node.view(tenant)
    assert (view.state, view.gpus[0].resident_bytes) == ("suspended", 0)
    assert view.reason == "it is suspended"
    assert reports(node) == [(tenant.number, 0)]


def test_it_gets_no_lease_however_long_it_stands_at_the_gate_and_at_once_when_it_is_resumed(
    node: SimulatedNode,
) -> None:
    tenant = node.start({0: [40]})
    suspend(node, tenant)
    tenant.touch()
    for _ in range(20):
        node.tick(10.0)
        node.settle()
    assert not may_submit(tenant)
    assert node.arbiter.queue() == []
    resume(node, tenant)
    assert may_submit(tenant)
    assert tenant.resident_bytes(0) == 40


def test_one_that_wants_nothing_is_idle_when_it_is_resumed(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    suspend(node, tenant)
    resume(node, tenant)
    assert not may_submit(tenant)
    assert node.view(tenant).state == "idle"


def test_what_it_asks_for_meanwhile_is_answered_when_it_is_resumed(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    suspend(node, tenant)
    block = tenant.allocate(0, [10])
    node.settle()
    assert node.view(tenant).asks
    assert not block.admitted
    resume(node, tenant)
    assert not node.view(tenant).asks
    assert may_submit(tenant)


def test_one_that_waits_for_its_turn_waits_no_more(node: SimulatedNode) -> None:
    holder, waiter = node.start({0: [60]}), node.start({0: [60]})
    for tenant in (holder, waiter):
        tenant.touch()
    node.settle()
    assert sorted(node.view(t).state for t in (holder, waiter)) == ["holding", "queued"]
    waiting = next(t for t in (holder, waiter) if not t.is_open)
    suspend(node, waiting)
    assert node.view(waiting).state == "suspended"
    assert node.arbiter.queue() == []
    resume(node, waiting)
    assert node.view(waiting).state == "queued"


def test_one_whose_memory_comes_back_is_evicted_again(node: SimulatedNode) -> None:
    one, other = node.start({0: [60]}), node.start({0: [60]})
    coming = next(t for t in (one, other) if not t.is_open)
    while node.view(coming).state != "restoring":
        busy = next((t for t in (one, other) if t.has_work or t.sent), None)
        if busy is None:
            node.tick(1.0)
        elif busy.has_work:
            busy.work()
        else:
            node.hear(busy)
    suspend(node, coming)
    assert node.view(coming).state == "suspended"
    assert coming.resident_bytes(0) == 0


def test_the_time_and_memory_that_it_was_promised_can_be_promised_to_others(
    node: SimulatedNode,
) -> None:
    tenant = node.start({0: [40]})
    share = Share(gpu=0.7, memory_bytes=40)
    node.feed(ev.ShareSet(tenant.number, share))
    node.settle()
    wanted = Share(gpu=0.5, memory_bytes=80)
    assert node.arbiter.refuse_share(0, wanted)
    suspend(node, tenant)
    assert tenant.resident_bytes(0) == 0, "what its share keeps on the GPU leaves, too"
    assert node.arbiter.refuse_share(0, wanted) is None
    assert node.arbiter.refuse_share(0, share, own=[tenant.number]) is None
    assert node.arbiter.refuse_resume(tenant.number) == ""
    resume(node, tenant)
    assert node.view(tenant).share == share
    assert node.arbiter.refuse_share(0, wanted)


def test_it_cannot_be_resumed_where_others_were_promised_its_room(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    suspend(node, tenant)
    other = node.start({0: [10]})
    node.feed(ev.ShareSet(other.number, Share(memory_bytes=80)))
    assert node.arbiter.refuse_resume(tenant.number) == (
        "its 40 B do not fit into the 100 B of GPU 0 beside 80 B that are promised to others, "
        "or cannot leave"
    )
    node.kill(other)
    assert node.arbiter.refuse_resume(tenant.number) == ""


def test_a_share_that_is_set_meanwhile_counts_once_it_is_resumed(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    suspend(node, tenant)
    node.feed(ev.ShareSet(tenant.number, Share(gpu=0.7)))
    assert node.arbiter.refuse_share(0, Share(gpu=0.5)) is None
    resume(node, tenant)
    assert node.view(tenant).share == Share(gpu=0.7)


def test_what_cannot_leave_stays_and_is_said(node: SimulatedNode) -> None:
    tenant = node.start({0: [20]})
    tenant.allocate(0, [10], pinned=True)
    node.settle()
    tenant.touch()
    suspend(node, tenant)
    assert tenant.resident_bytes(0) == 10
    assert reports(node) == [(tenant.number, 10)]
    assert node.view(tenant).reason == "it is suspended, but for 10 B that cannot leave"


def test_what_the_host_has_no_room_for_stays_until_there_is_some() -> None:
    node = node_with(arena_bytes=15)
    tenant = node.start({0: [10, 10, 10]})
    for chunk in range(3):
        tenant.write(tenant.blocks[0], chunk)
    suspend(node, tenant)
    assert tenant.resident_bytes(0) == 10, "chunks are whole, as everywhere"
    reason = "it is suspended, but for 10 B for which the host has no room"
    assert node.view(tenant).reason == reason
    node.feed(ev.ArenaSet(40))
    node.settle()
    assert tenant.resident_bytes(0) == 0


def test_zeros_need_no_room_of_the_host() -> None:
    node = node_with(arena_bytes=10)
    tenant = node.start({0: [10, 10, 10]})
    tenant.write(tenant.blocks[0], 1)
    suspend(node, tenant)
    assert tenant.resident_bytes(0) == 0


def test_one_that_cannot_move_its_memory_now_is_asked_again(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    tenant.eviction_fails = True
    suspend(node, tenant)
    assert tenant.resident_bytes(0) == 40
    assert reports(node) == []
    tenant.eviction_fails = False
    for _ in range(30):
        node.tick(10.0)
        node.settle()
    assert tenant.resident_bytes(0) == 0
    assert reports(node) == [(tenant.number, 0)]


def test_a_drain_that_needs_its_lease_for_a_moment_gets_it_and_ends_suspended(
    node: SimulatedNode,
) -> None:
    tenant = node.start({0: [40]})
    tenant.depends = 1
    node.suspend(tenant)
    tenant.touch()
    for _ in range(20):
        node.settle()
        node.tick(0.5)
    assert node.view(tenant).state == "suspended"
    assert tenant.resident_bytes(0) == 0


def test_a_gang_with_a_suspended_member_holds_nothing(node: SimulatedNode) -> None:
    one, other = node.join("g", 2), node.join("g", 2)
    for member in (one, other):
        member.attach(0, 0, 100)
        node.settle()
        member.allocate(0, [20])
        member.touch()
        node.settle()
    assert may_submit(one)
    assert may_submit(other)
    suspend(node, one)
    other.touch()
    node.settle()
    assert not may_submit(other)
    assert one.resident_bytes(0) == 0
    assert node.view(other).reason == f"tenant {one.number}, of its gang, is suspended"
    resume(node, one)
    assert may_submit(one)
    assert may_submit(other)


def test_one_that_outlived_its_agent_with_a_lease_is_suspended_again(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    node.suspend(tenant)  # it has not read the revoke when its agent dies
    node.restart()
    node.resume(tenant)
    node.feed(ev.Settled())
    node.settle()
    assert node.view(tenant).state == "suspended"
    assert tenant.resident_bytes(0) == 0


def test_other_tenants_get_the_room_and_nothing_comes_back(node: SimulatedNode) -> None:
    one, other = node.start({0: [60]}), node.start({0: [60]})
    suspend(node, one)
    other.touch()
    node.settle()
    assert may_submit(other)
    assert other.resident_bytes(0) == 60
    node.told.clear()
    for _ in range(20):
        node.tick(10.0)
        node.settle()
    assert not [each for each in node.told if isinstance(each, do.Revoke | do.Evict)]
    resume(node, one)
    one.touch()
    for _ in range(20):
        node.tick(10.0)
        node.settle()
    assert may_submit(one)
    assert one.resident_bytes(0) == 60


def test_suspending_twice_or_what_is_not_known_changes_nothing(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    suspend(node, tenant)
    told = len(node.told)
    node.feed(ev.Suspend(tenant.number))
    node.feed(ev.Suspend(99))
    node.feed(ev.Resume(99))
    assert len(node.told) == told
    node.kill(tenant)
    other = node.start({0: [40]})
    assert node.feed(ev.Resume(other.number)) == []


def test_a_checkpoint_holds_who_is_suspended(node: SimulatedNode) -> None:
    tenant = node.start({0: [40]})
    node.feed(ev.ShareSet(tenant.number, Share(gpu=0.7)))
    suspend(node, tenant)
    again: Arbiter = restore(take(node.arbiter))
    assert again.tenants() == node.arbiter.tenants()
    list(again.handle(node.now_s, ev.Resume(tenant.number)))
    (view,) = again.tenants()
    assert (view.state, view.share) == ("idle", Share(gpu=0.7))
