"""Whose bytes move, how many, and in which order room is made."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def said(node: SimulatedNode, kind: type[do.Evict | do.RestoreBudget]) -> list[tuple[int, int]]:
    return [(told.tenant, told.bytes) for told in node.told if isinstance(told, kind)]


def lasts_until_drained(node: SimulatedNode, tenant: SimulatedTenant) -> None:
    """Let its turn run out, read the revoke and say that nothing runs."""
    node.tick(0.2)
    while tenant.has_work:
        tenant.work()
    while tenant.sent:
        node.hear(tenant)


def taken_turns(node: SimulatedNode, sizes: list[list[int]]) -> list[SimulatedTenant]:
    """Tenants that each had a turn with all their memory; the last one holds."""
    tenants = []
    for chunks in sizes:
        tenants.append(node.start({0: chunks}))
        node.tick(0.2)
        node.settle()
        tenants[-1].touch()
        assert tenants[-1].is_open
    node.tick(1000.0)
    node.told.clear()
    return tenants


def test_only_the_deficit_moves(node: SimulatedNode) -> None:
    first, second = taken_turns(node, [[10] * 6, [10] * 6])
    assert first.resident_bytes(0) == 40
    first.touch()
    node.settle()
    assert said(node, do.Evict) == [(second.number, 20)]
    assert sum(amount for _, amount in said(node, do.RestoreBudget)) == 20


def test_each_step_out_is_room_at_once(node: SimulatedNode) -> None:
    first, second = taken_turns(node, [[10] * 6, [10] * 6])
    first.touch()
    node.hear(first)
    lasts_until_drained(node, second)
    while second.has_work:
        second.work()
    rooms = []
    while second.sent:
        rooms += [told.bytes for told in node.hear(second) if isinstance(told, do.RestoreBudget)]
    assert rooms == [10, 10]


def test_who_wants_nothing_goes_first_least_recently_used(node: SimulatedNode) -> None:
    old, recent, _ = taken_turns(node, [[10] * 3, [10] * 3, [10] * 4])
    node.feed(ev.Idle(old.number, old.epoch))
    newcomer = node.start({0: [10] * 6})
    node.tick(0.2)
    node.settle()
    assert newcomer.is_open
    assert old.resident_bytes(0) == 0
    assert recent.resident_bytes(0) < 30


def test_what_drains_is_waited_for_before_the_queue_is_robbed(node: SimulatedNode) -> None:
    a, b, c = taken_turns(node, [[10] * 6, [10] * 6, [10] * 6])
    for each in (b, a, c):
        each.touch()
        while each.sent:
            node.hear(each)
    node.settle()
    assert b.is_open
    assert c.resident_bytes(0) == 40
    node.told.clear()
    node.tick(100.0)  # b is revoked for a, who lacks everything; c comes after a
    b.touch()
    node.settle()
    assert a.is_open
    assert said(node, do.Evict) == [(b.number, 60)]


def test_whole_chunks_may_be_more_than_was_asked(node: SimulatedNode) -> None:
    first, second = taken_turns(node, [[40, 20], [33, 33]])
    for _ in range(6):
        for each in (first, second):
            each.touch()
            node.settle()
            node.tick(100.0)
            node.settle()
            assert each.is_open
            assert each.resident_bytes(0) == each.mapped_bytes(0)


def test_a_holder_that_grows_gets_room_from_those_who_are_out(node: SimulatedNode) -> None:
    out, holder = taken_turns(node, [[10] * 6, [10] * 6])
    block = holder.allocate(0, [10, 10])
    node.settle()
    assert block.admitted
    assert said(node, do.Evict) == [(out.number, 20)]


def test_a_holder_that_grows_waits_for_the_turns_of_others(node: SimulatedNode) -> None:
    other = node.start({0: [40]})
    grower = node.start({0: [40]})
    block = grower.allocate(0, [40])
    node.settle()
    assert node.view(grower).asks
    assert node.view(grower).reason == f"tenant {other.number} holds the GPU"
    node.tick(0.2)
    node.settle()
    assert block.admitted
    assert grower.is_open


def test_two_who_hold_and_both_wait_for_memory_do_not_wait_for_a_turn_to_end(
    node: SimulatedNode,
) -> None:
    """Neither does anything before it has more, so the one behind gives way as it falls silent."""
    one = node.start({0: [40]})
    other = node.start({0: [40]})
    blocks = {each.number: each.allocate(0, [40]) for each in (one, other)}
    node.settle()
    assert not any(block.admitted for block in blocks.values())
    began_s = node.now_s
    for each in (one, other):
        each.fall_idle()
    node.settle()
    assert node.now_s == began_s
    assert all(block.admitted for block in blocks.values())


def test_one_that_always_grows_starves_nobody(node: SimulatedNode) -> None:
    other = node.start({0: [60]})
    grower = node.start({0: [1]})
    for _ in range(70):
        if all(block.admitted for block in grower.blocks):
            grower.allocate(0, [1])
        grower.touch()
        other.touch()
        node.settle()
        node.tick(0.2)
        node.settle()
    node.tick(100.0)
    node.settle()
    turns = dict.fromkeys((other.number, grower.number), 0)
    for told in node.told:
        if isinstance(told, do.Grant):
            turns[told.tenant] += 1
    assert turns[other.number] > 3
    assert all(block.admitted for block in grower.blocks)


def test_a_context_makes_holders_give_way(node: SimulatedNode) -> None:
    first = node.start({0: [50]}, residue_bytes=10)
    second = node.start({0: [50]}, residue_bytes=10)
    assert all(each.is_open for each in (first, second))
    third = node.join()
    third.attach(0, 10, 100)
    node.settle()
    assert node.view(third).reason == "room for its context is being made"
    node.tick(0.2)
    node.settle()
    assert third.contexts == {0: 10}
    assert not first.is_open
    assert second.is_open


def test_a_context_that_takes_more_than_expected_interrupts_nobody(node: SimulatedNode) -> None:
    first = node.start({0: [50]}, residue_bytes=10)
    second = node.start({0: [50]}, residue_bytes=10)
    node.feed(ev.Measured(first.number, 0, 15))
    node.tick(1000.0)
    assert second.is_open
    assert first.is_open


def test_who_was_admitted_comes_back_whatever_contexts_turned_out_to_take(
    node: SimulatedNode,
) -> None:
    whole = node.start({0: [10] * 10}, residue_bytes=10)
    other = node.start({0: [50]}, residue_bytes=10)
    node.feed(ev.Measured(other.number, 0, 15))
    node.tick(0.2)
    node.settle()
    assert other.is_open
    whole.touch()
    node.settle()
    node.tick(100.0)
    node.settle()
    assert whole.is_open


def test_unused_admissions_count_until_the_drain(node: SimulatedNode) -> None:
    first = node.start({0: [50]})
    first.allocate(0, [40])
    node.settle()  # admitted, and never mapped
    node.tick(1.0)
    second = node.start({0: [50]})
    lasts_until_drained(node, first)
    node.settle()
    assert second.is_open
    assert said(node, do.Evict) == []


def test_a_process_that_dies_makes_room_in_any_state(node: SimulatedNode) -> None:
    for steps in range(12):
        first = node.start({0: [10] * 6})
        second = node.start({0: [10] * 6})
        third = node.start({0: [10] * 9})
        node.tick(0.2)
        for _ in range(steps):
            for each in (first, second, third):
                if each.has_work:
                    each.work()
                if each.sent:
                    node.hear(each)
        for victim, others in ((first, (second, third)), (second, (third,)), (third, ())):
            node.kill(victim)
            for each in others:
                each.touch()
            node.settle()
            node.tick(100.0)
            node.settle()
        assert node.arbiter.gpus()[0].free_bytes == 100


def test_a_failed_eviction_is_tried_again_later(node: SimulatedNode) -> None:
    first, second = taken_turns(node, [[10] * 6, [10] * 6])
    second.eviction_fails = True
    first.touch()
    node.settle()
    assert not first.is_open
    assert "moving it out failed" in node.view(first).reason
    second.eviction_fails = False
    node.tick(11.0)
    node.settle()
    assert first.is_open


def test_memory_that_others_can_see_is_not_ordered_out(node: SimulatedNode) -> None:
    first, second = taken_turns(node, [[10] * 4, [10] * 4])
    node.feed(ev.PinRequest(second.number, 0, 99, 20, "cuIpcGetMemHandle"))
    (kept,) = (v for v in node.arbiter.tenants() if v.tenant == second.number)
    assert kept.gpus[0].pinned_bytes == 20
    node.feed(ev.Free(second.number, 0, 10, 10, pinned=True))
    (kept,) = (v for v in node.arbiter.tenants() if v.tenant == second.number)
    assert kept.gpus[0].pinned_bytes == 10
    assert kept.gpus[0].allocated_bytes == 30
    assert first.number != second.number


def test_what_a_process_inherited_stays_charged_whatever_it_counts_itself() -> None:
    node = SimulatedNode([GpuSpec(0, 10, 10)], Settings(arena_bytes=1000, turn_factor=0.0))
    heir = node.start({0: [3]})
    node.feed(ev.ChargeTransferred(heir.number, 0, 4))
    other = node.start({0: [5]})
    for _ in range(4):
        heir.touch()
        other.touch()
        node.settle()
        node.tick(0.2)
        node.settle()
        there = node.view(heir).gpus[0].resident_bytes
        assert there == heir.resident_bytes(0) + 4
        assert there + other.resident_bytes(0) <= 10
    assert node.view(heir).turns > 1
    node.feed(ev.ChargeReleased(heir.number, 0, 4))
    assert node.view(heir).gpus[0].pinned_bytes == 0
    assert node.view(heir).gpus[0].resident_bytes == heir.resident_bytes(0)


def test_nobody_waits_for_room_on_a_gpu_that_is_gone(node: SimulatedNode) -> None:
    first, second = taken_turns(node, [[10] * 6, [10] * 6])
    first.touch()
    node.hear(first)
    node.tick(0.2)
    node.told.clear()
    node.feed(ev.GpuLost(0))
    third = node.start({0: [10] * 9})
    node.settle()
    assert first.is_open
    assert third.resident_bytes(0) == 90
    assert said(node, do.Evict) == []
    assert second.resident_bytes(0) == 60
    gone = node.arbiter.gpus()[0]
    assert gone.capacity_bytes == 0
