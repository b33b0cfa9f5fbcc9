"""How much unfinished work a holder may have submitted."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.model.share import Priority, Share
from tests.support.simulated_node import SimulatedNode

BESIDE_S, SHARED_S, WAITED_S = 0.008, 0.002, 0.0001


def paces(told: list[do.Instruction]) -> list[tuple[int, float]]:
    return [(each.tenant, each.queue_s) for each in told if isinstance(each, do.SetQueueDepth)]


def test_whoever_is_alone_on_its_gpu_has_no_bound(node: SimulatedNode) -> None:
    node.start({0: [60]})
    node.start({1: [60]})
    node.tick(1000.0)
    assert paces(node.told) == []


def test_a_second_tenant_bounds_both_until_it_leaves(node: SimulatedNode) -> None:
    first = node.start({0: [20]})
    second = node.start({0: [20]})
    assert first.queue_s == second.queue_s == BESIDE_S
    node.told.clear()
    node.tick(1000.0)
    assert node.told == []
    node.kill(second)
    assert paces(node.told) == [(first.number, 0.0)]


def test_an_attached_latency_class_narrows_the_bound_at_once_and_widens_it_when_it_leaves(
    node: SimulatedNode,
) -> None:
    first = node.start({0: [20]})
    node.start({0: [20]})
    inference = node.start({0: [20]})
    assert first.queue_s == BESIDE_S
    node.feed(ev.ShareSet(inference.number, Share(latency=True)))
    node.settle()
    first.touch()
    node.settle()
    inference.fall_idle()
    node.settle()
    assert first.queue_s == WAITED_S
    node.kill(inference)
    node.settle()
    assert first.queue_s == SHARED_S
    node.tick(1.1)
    node.settle()
    assert first.queue_s == BESIDE_S


def test_another_class_or_more_memory_than_fits_narrows_the_bound(node: SimulatedNode) -> None:
    first, second = node.start({0: [20]}), node.start({0: [20]})
    node.feed(ev.ShareSet(second.number, Share(priority=Priority.LOW)))
    node.settle()
    assert first.queue_s == SHARED_S
    node.feed(ev.ShareSet(second.number, Share()))
    node.tick(1.1)
    node.settle()
    assert first.queue_s == BESIDE_S
    node.start({0: [70]})
    assert all(t.queue_s <= SHARED_S for t in node.tenants.values() if t.is_open)


def test_windows_narrow_the_bound_and_moments_without_them_do_not_widen_it(
    node: SimulatedNode,
) -> None:
    tenants = [node.start({0: [20]}) for _ in range(2)]
    node.feed(ev.ShareSet(tenants[0].number, Share(gpu=0.7)))
    node.settle()
    assert {tenant.queue_s for tenant in tenants} == {SHARED_S}
    node.told.clear()
    for _ in range(20):
        node.tick(0.01)
        tenants[1].fall_idle()
        node.settle()
        node.tick(0.01)
        tenants[1].touch()
        node.settle()
    assert paces(node.told) == []


def test_equal_parts_need_no_windows_and_keep_the_wide_bound(node: SimulatedNode) -> None:
    tenants = [node.start({0: [20]}) for _ in range(2)]
    for tenant in tenants:
        node.feed(ev.ShareSet(tenant.number, Share(gpu=0.5)))
    node.settle()
    node.tick(1.1)
    node.settle()
    assert {tenant.queue_s for tenant in tenants} == {BESIDE_S}


def test_beside_the_latency_class_it_is_always_small(node: SimulatedNode) -> None:
    training = node.start({0: [20]})
    inference = node.start({0: [20]})
    node.feed(ev.ShareSet(inference.number, Share(latency=True)))
    training.touch()
    node.settle()
    inference.fall_idle()
    node.settle()
    assert training.is_open
    assert training.queue_s == WAITED_S


def test_the_bound_is_small_only_shortly_before_the_turn_of_who_waits(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    assert first.queue_s == SHARED_S
    assert node.tick(0.09) == []
    told = node.tick(0.02)
    assert told.index(do.SetQueueDepth(first.number, WAITED_S)) < len(told) - 1
    assert isinstance(told[-1], do.Revoke)
    node.settle()
    assert second.is_open
    assert second.queue_s == SHARED_S


def test_handoffs_between_idle_tenants_say_nothing_about_it(node: SimulatedNode) -> None:
    tenants = [node.start({0: [60]}) for _ in range(2)]
    node.tick(0.15)
    node.settle()
    for tenant in tenants:
        tenant.touch()
        node.settle()
    told_before = len(paces(node.told))
    for _ in range(20):
        holder = next(t for t in tenants if t.is_open)
        other = next(t for t in tenants if not t.is_open)
        node.tick(0.01)
        holder.fall_idle()
        node.settle()
        assert other.is_open
        holder.touch()
        node.settle()
    assert len(paces(node.told)) <= told_before + 1


def test_a_waiter_that_its_own_limit_pauses_or_a_lower_class_does_not_count(
    node: SimulatedNode,
) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.feed(ev.ShareSet(first.number, Share(priority=Priority.HIGH)))
    node.tick(10.0)
    node.settle()
    assert first.is_open
    assert not second.is_open
    assert first.queue_s == SHARED_S


def test_whoever_is_interrupted_by_its_own_limit_has_a_bound_also_alone(
    node: SimulatedNode,
) -> None:
    first = node.start({0: [20]})
    assert first.queue_s == 0
    node.feed(ev.ShareSet(first.number, Share(gpu_limit=0.5)))
    assert paces(node.told) == [(first.number, SHARED_S)]


def test_a_new_agent_tells_the_bound_again(node: SimulatedNode) -> None:
    tenants = [node.start({0: [20]}) for _ in range(2)]
    node.restart()
    node.told.clear()
    for tenant in tenants:
        node.resume(tenant)
    node.feed(ev.Settled())
    assert sorted(paces(node.told)) == [(t.number, BESIDE_S) for t in tenants]
