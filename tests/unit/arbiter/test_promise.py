"""What is promised to workloads that use no GPU yet is there when they come."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def come(node: SimulatedNode, memory_bytes: int, residue_bytes: int = 0) -> SimulatedTenant:
    """The program that room was kept for; it asks for all of it."""
    node.feed(ev.PromiseSet(0, 0, 0))
    found = SimulatedTenant(99)
    node.tenants[99] = found
    node.feed(ev.Hello(99, share=Share(memory_bytes=memory_bytes)))
    found.attach(0, residue_bytes, 100)
    node.settle()
    found.allocate(0, [memory_bytes])
    node.settle()
    return found


@pytest.mark.parametrize("pinned", [False, True])
def test_what_will_be_needed_is_not_allocated_by_others(node: SimulatedNode, pinned: bool) -> None:
    node.feed(ev.PromiseSet(0, 40, 0))
    early = node.start({0: [50]})
    early.allocate(0, [11], pinned=pinned)
    node.settle()
    (refused,) = early.refusals
    assert refused.code == "capacity"
    assert "40 B of them are kept for programs that will come" in refused.text
    assert not come(node, 40).refusals


@pytest.mark.parametrize("residue", [0, 1])
def test_contexts_of_others_leave_what_is_promised(residue: int) -> None:
    """A GPU without headroom: each context takes of what programs may have."""
    node = SimulatedNode([GpuSpec(0, 100, 100)], Settings(arena_bytes=1000))
    node.feed(ev.PromiseSet(0, 97, residue))
    there = [node.start({0: []}, residue_bytes=1) for _ in range(5)]
    assert sum(not each.refusals for each in there) == 3 - residue
    (text,) = {each.refusals[0].text for each in there if each.refusals}
    assert "97 B of them are kept for programs that will come" in text
    assert not come(node, 97, residue).refusals


def test_host_memory_is_left_for_what_a_promise_will_drive_out() -> None:
    node = SimulatedNode([GpuSpec(0, 120, 100)], Settings(arena_bytes=10))
    node.feed(ev.PromiseSet(0, 40, 0))
    first, second = node.start({0: [50]}), node.start({0: [20]})
    second.allocate(0, [1])
    node.settle()
    assert "GPU and host memory for evicted data (10 B) are full" in second.refusals[0].text
    assert not first.refusals
    assert not come(node, 40).refusals


def test_each_promise_replaces_the_one_before(node: SimulatedNode) -> None:
    node.feed(ev.PromiseSet(0, 90, 0))
    node.feed(ev.PromiseSet(0, 10, 0))
    assert not node.start({0: [90]}).refusals
