"""Who holds, who waits, and when a holder has to give way."""

from __future__ import annotations

import itertools
from dataclasses import replace

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.model.share import Share
from tests.support.gangs import node as made_node
from tests.support.gangs import pass_turns, touch
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def kinds(told: list[do.Instruction]) -> list[type]:
    return [type(each) for each in told]


def revoked(told: list[do.Instruction]) -> list[int]:
    return [each.tenant for each in told if isinstance(each, do.Revoke)]


def wants(node: SimulatedNode, tenant: SimulatedTenant) -> list[do.Instruction]:
    tenant.touch()
    return node.hear(tenant)


def test_everybody_who_fits_holds(node: SimulatedNode) -> None:
    tenants = [node.start({0: [30]}) for _ in range(3)]
    node.tick(1000.0)
    assert all(tenant.is_open for tenant in tenants)
    assert not revoked(node.told)
    assert not any(isinstance(told, do.SetIdleTimeout | do.Evict) for told in node.told)


def test_nobody_waits_so_nothing_is_said(node: SimulatedNode) -> None:
    node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(1.0)
    node.settle()
    assert second.is_open
    node.told.clear()
    node.tick(1000.0)
    assert node.told == []
    assert node.arbiter.deadline_s is None


def test_a_holder_keeps_its_turn_and_then_gives_way(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    node.start({0: [60]})
    assert node.tick(0.09) == []
    assert revoked(node.tick(0.02)) == [first.number]


def test_a_turn_is_as_long_as_the_handoff_is_costly(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(0.1)
    node.now_s += 1.0  # the hand-off to second takes a second
    node.settle()
    assert second.is_open
    wants(node, first)
    assert revoked(node.tick(8.9)) == []
    assert revoked(node.tick(0.2)) == [second.number]


def test_a_quantum_is_the_length_of_a_turn_whatever_the_handoff_cost(node: SimulatedNode) -> None:
    first, second = node.start({0: [60]}), node.start({0: [60]})
    node.feed(ev.ShareSet(second.number, Share(quantum_s=0.2)))
    node.feed(ev.SettingsSet(replace(node.settings, quantum_s=0.05)))
    assert revoked(node.tick(0.045)) == []
    assert revoked(node.tick(0.01)) == [first.number]  # the turn that had begun is as short
    node.now_s += 1.0
    node.settle()
    wants(node, first)
    assert revoked(node.tick(0.15)) == []
    assert revoked(node.tick(0.06)) == [second.number]
    node.settle()
    node.feed(ev.ShareSet(first.number, Share(quantum_s=3.0)))
    wants(node, second)
    assert revoked(node.tick(2.9)) == []
    node.feed(ev.ShareSet(first.number, Share()))
    assert revoked(node.tick(0.0)) == []
    assert revoked(node.told) == [first.number, second.number, first.number]


def test_one_handoff_that_was_held_up_makes_no_long_turn(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    tenants = itertools.cycle((second, first))
    for tenant, lasts_s in zip(tenants, (0.02, 0.02, 0.02, 0.02, 3.0, 0.02), strict=False):
        tenant.touch()
        node.settle()
        while not revoked(node.tick(0.001)):
            pass
        node.now_s += lasts_s  # until it is there
        node.settle()
        assert tenant.is_open
    second.touch()
    node.settle()
    assert len(revoked(node.tick(0.3))) == 1


def test_memory_asked_for_while_out_is_there_when_the_turn_begins(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(0.1)
    assert node.view(second).state == "restoring"  # 60 bytes of first are still there
    node.settle()
    assert second.is_open
    assert all(block.admitted for block in second.blocks)
    assert first.resident_bytes(0) == 0


def test_an_idle_holder_gives_way_early(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    assert first.watched
    first.fall_idle()
    assert revoked(node.hear(first)) == [first.number]
    node.settle()
    assert second.is_open


def test_a_watch_ends_with_the_wait(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.kill(second)
    node.settle()
    assert not first.watched


def test_the_longest_holder_goes_first_and_only_as_many_as_needed(node: SimulatedNode) -> None:
    holders = [node.start({0: [30]}) for _ in range(3)]
    for holder in holders:
        assert holder.is_open
    node.tick(1.0)
    node.start({0: [35]})
    assert revoked(node.told) == [holders[0].number]


def test_a_small_holder_that_does_not_help_enough_is_left_alone(node: SimulatedNode) -> None:
    small = node.start({0: [10]})
    large = node.start({0: [80]})
    node.tick(1.0)
    newcomer = node.start({0: [80]})
    assert revoked(node.told) == [large.number]
    node.settle()
    assert small.is_open
    assert newcomer.is_open


def test_equals_are_served_in_the_order_of_their_coming(node: SimulatedNode) -> None:
    tenants = [node.start({0: [60]}) for _ in range(3)]
    order = [tenants[0].number]
    for _ in range(500):
        for tenant in tenants:
            tenant.touch()
        node.settle()
        node.told.clear()
        node.tick(0.01)
        node.settle()
        order += [told.tenant for told in node.told if isinstance(told, do.Grant)]
    turns = [a for a, b in itertools.pairwise(order) if a != b]
    assert len(turns) > 10
    assert all(turns[i] == turns[i + 3] for i in range(len(turns) - 3))


def test_who_comes_later_passes_only_without_getting_in_the_way(node: SimulatedNode) -> None:
    first = node.start({0: [50]})
    node.tick(0.01)
    head = node.start({0: [70]})
    beside_both = node.start({0: [30]})
    in_the_way = node.start({0: [25]})
    assert first.is_open
    assert beside_both.is_open
    assert not head.is_open
    assert not in_the_way.is_open
    assert node.view(in_the_way).reason == "others are ahead in the queue"


def test_who_fits_beside_the_holders_is_their_guest(node: SimulatedNode) -> None:
    first = node.start({0: [50]})
    node.tick(0.01)
    head = node.start({0: [70]})
    guest = node.start({0: [40]})
    assert [t.is_open for t in (first, head, guest)] == [True, False, True]
    assert revoked(node.tick(0.08)) == []
    assert revoked(node.tick(0.011)) == [first.number, guest.number]
    node.settle()
    assert head.is_open


def test_nobody_comes_as_a_guest_for_a_moment(node: SimulatedNode) -> None:
    node.start({0: [50]})
    node.start({0: [70]})
    node.tick(0.085)
    late = node.start({0: [40]})
    assert node.view(late).reason == "others are ahead in the queue"


def cohorts(node: SimulatedNode, tenants: list[SimulatedTenant], seconds: float) -> list[set[int]]:
    """The sets that hold together, one after the other, while everybody always has work."""
    found: list[set[int]] = []
    node.told.clear()
    for _ in range(int(seconds * 1000)):
        for tenant in tenants:
            tenant.touch()
        node.settle()
        holding = {tenant.number for tenant in tenants if tenant.is_open}
        if not found or holding != found[-1]:
            found.append(holding)
        node.tick(0.001)
    return found


def test_those_who_fit_together_take_turns_together(node: SimulatedNode) -> None:
    tenants = [node.start({0: [50]}) for _ in range(4)]
    found = cohorts(node, tenants, 2.0)[2:]
    assert set(map(frozenset, found)) == {frozenset({1, 2}), frozenset({3, 4})}
    assert len(revoked(node.told)) <= 42  # each of four once in 0.2 s, and not more often


def test_cohorts_of_unequal_members_alternate(node: SimulatedNode) -> None:
    tenants = [node.start({0: [size]}) for size in (60, 40, 70, 30)]
    found = cohorts(node, tenants, 4.0)[4:]
    assert set(map(frozenset, found)) == {frozenset({1, 2}), frozenset({3, 4})}


def test_cohorts_whose_members_drift_apart_do_not_cost_more_handoffs(node: SimulatedNode) -> None:
    tenants = []
    for _ in range(4):
        tenants.append(node.start({0: [50]}))
        cohorts(node, tenants, 0.037)
    cohorts(node, tenants, 0.5)
    found = cohorts(node, tenants, 4.0)
    assert all(len(each) == 2 for each in found)  # no room is ever left unused
    assert len(revoked(node.told)) <= 82
    times = [node.view(tenant).held_s for tenant in tenants]
    assert max(times) - min(times) < 0.25


def test_with_room_for_two_of_three_two_always_hold(node: SimulatedNode) -> None:
    tenants = [node.start({0: [50]}) for _ in range(3)]
    found = cohorts(node, tenants, 3.0)
    assert all(len(each) == 2 for each in found)
    times = [node.view(tenant).held_s for tenant in tenants]
    assert max(times) - min(times) < 0.25


def test_several_gpus_are_taken_together(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({1: [60]})
    both = node.start({0: [60], 1: [60]})
    assert node.view(both).state == "queued"
    node.tick(1.0)
    assert set(revoked(node.told)) == {first.number, second.number}
    node.settle()
    assert both.is_open
    both.fall_idle()
    wants(node, first)
    assert not first.is_open


def test_a_process_without_a_gpu_holds_at_once(node: SimulatedNode) -> None:
    tenant = node.join()
    assert kinds(wants(node, tenant)) == [do.Grant]


def test_a_wish_during_the_drain_is_not_lost(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    node.start({0: [60]})
    node.tick(0.2)
    first.touch()
    node.settle()
    assert node.view(first).state == "queued"


def test_a_wish_that_crossed_the_grant_is_not_lost(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    node.feed(ev.LeaseRequest(first.number))
    node.start({0: [60]})
    node.tick(0.2)
    node.settle()
    assert node.view(first).state == "queued"


def test_an_overdue_drain_is_reported_again_and_again(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    node.start({0: [60]})
    first.hung = True
    told = node.tick(25.0)
    overdue = [each for each in told if isinstance(each, do.Overdue)]
    assert [each.tenant for each in overdue] == [first.number] * 2
    assert not any(each.kill for each in overdue)


def test_beside_one_that_does_not_answer_others_go_on(node: SimulatedNode) -> None:
    stopped = node.start({0: [60]})
    large = node.start({0: [60]})
    stopped.hung = True
    small = node.start({0: [40]})
    node.tick(11.0)
    node.settle()
    assert small.is_open
    assert "does not answer" in node.view(large).reason
    node.kill(stopped)
    node.settle()
    assert large.is_open


def test_turns_may_have_no_least_length() -> None:
    node = made_node(turn_min_s=0.0, turn_factor=0.0)
    programs = [node.start({0: [6]}) for _ in range(4)]
    for _ in range(30):
        touch(node, *programs)
        pass_turns(node)
    assert all(node.view(program).turns > 2 for program in programs)
