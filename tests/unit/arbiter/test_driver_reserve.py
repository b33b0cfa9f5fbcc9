"""Room for what drivers take by themselves: made from what others have, and measured afterwards."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.admission.driver_reserve import KEPT_S
from tests.support.simulated_node import SimulatedNode


def test_room_is_made_from_what_others_have(node: SimulatedNode) -> None:
    out = node.start({0: [10] * 6})
    holds = node.start({0: [10] * 6})  # out gives way
    node.tick(1.0)
    node.settle()
    holds.touch()
    assert (out.resident_bytes(0), holds.resident_bytes(0)) == (40, 60)
    holds.need(0, 15)
    node.settle()
    assert not holds.needing
    assert out.resident_bytes(0) <= 25
    assert holds.resident_bytes(0) == 60
    assert holds.is_open


def test_room_is_kept_until_it_was_measured_and_then_charged_as_it_is(node: SimulatedNode) -> None:
    node.start({0: [10] * 6})
    holds = node.start({0: [10] * 4})
    holds.need(0, 10)
    node.tick(0.2)
    node.settle()
    assert not holds.needing
    (gpu, _) = node.arbiter.gpus()
    assert gpu.capacity_bytes == 90
    node.feed(ev.Measured(holds.number, 0, 23))
    (gpu, _) = node.arbiter.gpus()
    assert (gpu.capacity_bytes, gpu.residue_bytes) == (97, 23)
    assert node.view(holds).gpus[0].allocated_bytes == 40


def test_room_that_nobody_took_is_not_kept_for_ever(node: SimulatedNode) -> None:
    node.start({0: [10] * 6})
    holds = node.start({0: [10] * 4})
    holds.need(0, 10)
    node.tick(0.2)
    node.settle()
    assert not holds.needing
    node.tick(KEPT_S + 0.1)
    assert node.arbiter.gpus()[0].capacity_bytes == 100
    assert node.arbiter.deadline_s is None


def test_a_holder_gives_way_when_its_turn_is_over_and_comes_back(node: SimulatedNode) -> None:
    first = node.start({0: [10] * 6})
    second = node.start({0: [10] * 4})
    second.need(0, 10)
    node.settle()
    assert second.needing  # first has its turn
    assert first.is_open
    node.tick(0.2)
    node.settle()
    assert not second.needing
    assert second.is_open
    first.touch()
    node.feed(ev.Measured(second.number, 0, 15))
    node.settle()
    assert first.is_open
    assert second.is_open


def test_what_cannot_be_made_is_refused_with_a_reason(node: SimulatedNode) -> None:
    alone = node.start({0: [10] * 6})
    alone.need(0, 10)
    node.settle()
    assert "0 B of others could leave" in alone.refusals[0].text
    other = node.start({0: [10] * 4}, residue_bytes=19)
    alone.need(0, 10)
    node.tick(0.2)
    node.settle()
    assert not alone.needing
    other.need(0, 50)  # 60 of the 120 are alone's, 19 code: at most 41 for more of it
    node.tick(0.2)
    node.settle()
    assert not other.needing
    node.feed(ev.Measured(other.number, 0, 60))
    other.need(0, 10)
    node.settle()
    assert "would shut out tenant 1" in other.refusals[0].text


def test_a_need_is_not_awaited_for_ever(node: SimulatedNode) -> None:
    stubborn = node.start({0: [10] * 6})
    needs = node.start({0: [10] * 4})
    stubborn.hung = True
    needs.need(0, 10)
    node.settle()
    node.tick(1.0)
    assert needs.needing
    node.tick(30.0)
    node.settle()
    assert not needs.needing
    assert "could not be made in time" in needs.refusals[0].text


def test_what_the_driver_has_free_is_not_made_again(node: SimulatedNode) -> None:
    node.start({0: [10] * 6})
    holds = node.start({0: [10] * 4})
    node.told.clear()
    told = node.feed(ev.DriverOom(holds.number, 0, 77, 10, free_bytes=12))
    assert told == [do.Admitted(holds.number, 0, 77)]


def test_nobody_needs_anything_where_it_is_not(node: SimulatedNode) -> None:
    tenant = node.start({0: [10]})
    node.feed(ev.DriverOom(tenant.number, 1, 77, 10))
    assert node.told[-1] == do.Refused(tenant.number, 1, 77, "gpu", "GPU 1 was not attached")
    assert node.feed(ev.DriverOom(99, 0, 78, 10)) == []


def test_what_is_free_counts_in_what_would_shut_others_out(node: SimulatedNode) -> None:
    """Room that is kept takes of what is free as well, so both leave others what they need."""
    keeps = node.start({0: [10] * 5})
    holds = node.start({0: [10]})
    pinned = node.start({0: []})
    pinned.allocate(0, [20], pinned=True)
    node.settle()
    assert not pinned.refusals
    keeps.touch()
    node.settle()
    before = node.view(keeps).gpus[0].allocated_bytes
    holds.need(0, 35)
    node.tick(KEPT_S / 2)
    node.settle()
    keeps.allocate(0, [1])
    node.tick(KEPT_S / 4)
    node.settle()
    assert not [no for no in keeps.refusals if "no longer fit" in no.text]
    assert node.view(keeps).gpus[0].allocated_bytes >= before


def test_who_alone_lacks_room_for_its_driver_is_not_sent_out_for_it(node: SimulatedNode) -> None:
    """Nothing of its own makes that room: who could is stopped, and nobody else waits."""
    stubborn = node.start({0: [10] * 6})
    needs = node.start({0: [10] * 4})
    stubborn.stopped = True
    needs.need(0, 10)
    node.settle()
    for _ in range(5):
        node.tick(0.2)
        node.settle()
    assert needs.needing
    assert {each.tenant for each in node.told if isinstance(each, do.Revoke)} == {stubborn.number}
