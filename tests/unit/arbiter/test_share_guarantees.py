"""Memory that is kept for a tenant stays, and nothing is promised twice."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.model.share import Share
from tests.support.shares import promise
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def test_kept_memory_is_not_evicted(node: SimulatedNode) -> None:
    keeps = node.start({0: [20, 20, 20]})
    promise(node, keeps, Share(memory_bytes=40))
    other = node.start({0: [60]})
    node.tick(0.2)
    node.settle()
    assert other.is_open
    assert keeps.resident_bytes(0) == 40


def test_what_would_need_kept_memory_is_refused(node: SimulatedNode) -> None:
    keeps = node.start({0: [20]})
    promise(node, keeps, Share(memory_bytes=40))
    other = node.start({0: [60]})
    assert other.blocks
    other.allocate(0, [1])
    node.settle()
    assert "beside memory of others that cannot leave" in other.refusals[-1].text


def test_shares_that_no_longer_fit_are_refused_with_what_would(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    promise(node, first, Share(gpu=0.6, memory_bytes=30))
    refuse = node.arbiter.refuse_share
    assert refuse(0, Share(gpu=0.4, memory_bytes=40)) is None
    assert refuse(1, Share(gpu=1.0, memory_bytes=100)) is None
    assert refuse(0, Share(gpu=1.0), own=[first.number]) is None

    text, possible = refuse(0, Share(gpu=0.5)) or ("", Share())
    assert text == "50 % of GPU 0 cannot be guaranteed: 60 % of it are promised to others"
    assert possible.gpu == 0.4
    text, possible = refuse(0, Share(memory_bytes=71)) or ("", Share())
    assert "30 B of it are promised to others" in text or "tenant 1 has 60 B" in text
    assert possible.memory_bytes == 40


def test_a_context_for_which_too_much_is_promised_is_refused(node: SimulatedNode) -> None:
    first = node.start({0: [10]})
    promise(node, first, Share(gpu=0.7))
    second = SimulatedTenant(99)
    node.tenants[99] = second
    node.feed(ev.Hello(99, share=Share(gpu=0.5)))
    second.attach(0, 0, 100)
    node.settle()
    assert "70 % of it are promised to others" in second.refusals[0].text
