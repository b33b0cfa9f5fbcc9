"""A higher class goes first: the latency class before every priority, and each before the next."""

from __future__ import annotations

from moiety.model.share import Priority, Share
from tests.support.shares import promise, revoked
from tests.support.simulated_node import SimulatedNode


def test_a_higher_class_goes_first_at_once(node: SimulatedNode) -> None:
    low = node.start({0: [60]})
    high = node.start({0: []})
    promise(node, high, Share(priority=Priority.HIGH))
    high.allocate(0, [60])
    told = node.hear(high)
    while high.sent:
        told += node.hear(high)
    node.settle()
    assert high.is_open
    assert low.number in revoked(node.told)
    low.touch()
    node.settle()
    node.tick(1000.0)
    assert not low.is_open
    assert (
        node.view(low).reason
        == f"tenant {high.number} holds the GPU and goes first (priority high)"
    )


def test_latency_goes_before_every_priority_and_gives_back_when_idle(node: SimulatedNode) -> None:
    training = node.start({0: [60]})
    promise(node, training, Share(priority=Priority.HIGH))
    inference = node.start({0: []})
    promise(node, inference, Share(priority=Priority.LOW, latency=True))
    inference.allocate(0, [60])
    node.settle()
    assert inference.is_open
    training.touch()
    node.settle()
    assert "goes first (latency)" in node.view(training).reason
    inference.fall_idle()
    node.settle()
    assert training.is_open


def test_latency_has_the_gpu_to_itself_though_both_fit(node: SimulatedNode) -> None:
    training = node.start({0: [30]})
    inference = node.start({0: [30]})
    promise(node, inference, Share(latency=True))
    node.settle()
    assert (training.is_open, inference.is_open) == (False, True)
    for _ in range(5):  # requests
        training.touch()
        node.settle()
        assert not training.is_open
        inference.fall_idle()
        node.settle()
        assert (training.is_open, inference.is_open) == (True, False)
        node.tick(0.001)  # long before its turn is over
        inference.touch()
        node.settle()
        assert (training.is_open, inference.is_open) == (False, True)


def test_several_of_the_latency_class_hold_together(node: SimulatedNode) -> None:
    training = node.start({0: [30]})
    inference = [node.start({0: [30]}) for _ in range(2)]
    for tenant in inference:
        promise(node, tenant, Share(latency=True))
    node.settle()
    for tenant in [training, *inference]:
        tenant.touch()
    node.settle()
    assert [t.is_open for t in [training, *inference]] == [False, True, True]
    inference[0].fall_idle()
    node.settle()
    assert not training.is_open
    inference[1].fall_idle()
    node.settle()
    assert training.is_open


def test_a_lower_class_does_not_pass_a_higher_that_waits(node: SimulatedNode) -> None:
    holder = node.start({0: [60]})
    promise(node, holder, Share(priority=Priority.HIGH))
    low = node.start({0: [70]})
    high = node.start({0: []})
    promise(node, high, Share(priority=Priority.HIGH))
    high.allocate(0, [70])
    node.settle()
    node.tick(0.2)
    node.settle()
    assert high.is_open
    assert not low.is_open


def test_one_of_a_lower_class_that_is_coming_steps_back(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(0.2)
    first.hung = True  # its memory is still there
    assert node.view(second).state in ("restoring", "queued")
    high = node.start({0: []})
    promise(node, high, Share(priority=Priority.HIGH))
    high.allocate(0, [80])
    node.settle()
    assert not high.blocks[0].admitted
    assert node.view(second).state == "queued"
    first.hung = False
    node.settle()
    assert high.is_open
