"""Another agent begins, and learns from the processes what there is."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from tests.support.simulated_node import SimulatedNode


def test_nothing_is_decided_before_all_are_back(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.restart()
    node.resume(second)
    second.touch()
    node.hear(second)
    assert not second.is_open
    node.resume(first)
    assert first.is_open
    told = node.feed(ev.Settled())
    assert not any(isinstance(each, do.Grant) for each in told)
    node.tick(0.2)
    node.settle()
    assert second.is_open


def test_a_new_process_waits_until_those_before_it_are_known(node: SimulatedNode) -> None:
    first = node.start({0: [100]}, residue_bytes=15)
    node.restart()
    new = node.join()
    new.attach(0, 10, 100)
    node.hear(new)
    assert not new.inbox
    node.resume(first)
    node.feed(ev.Settled())
    node.settle()
    assert [no.code for no in new.refusals] == ["capacity"]
    assert first.is_open


def test_what_was_asked_meanwhile_is_answered_after(node: SimulatedNode) -> None:
    tenant = node.start({0: [50]})
    node.restart()
    node.resume(tenant)
    block = tenant.allocate(0, [20])
    node.hear(tenant)
    assert not block.admitted
    node.feed(ev.Settled())
    node.settle()
    assert block.admitted


def test_a_holder_may_still_map_what_it_was_admitted(node: SimulatedNode) -> None:
    tenant = node.start({0: [50]})
    tenant.allocate(0, [30])
    node.settle()
    node.restart()
    node.resume(tenant)
    node.feed(ev.Settled())
    assert node.arbiter.gpus()[0].resident_bytes == 80


def test_the_next_lease_has_a_higher_epoch(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(0.2)
    node.settle()
    epoch = first.epoch
    node.restart()
    node.resume(first)
    node.resume(second)
    node.feed(ev.Settled())
    first.touch()
    node.settle()
    node.tick(1.0)
    node.settle()
    assert first.is_open
    assert first.epoch == epoch + 1
