"""Memory that is to stay on the GPU: what it would shut out, it is refused."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

CALL = "cuIpcGetMemHandle"
EXPORT = ev.PinRequest(1, 0, 77, 60, CALL)
WHOLE = ev.PinRequest(1, ev.EVERY_GPU, 77, call="cuGLCtxCreate")


def two_of(node: SimulatedNode, size: int) -> tuple[SimulatedTenant, SimulatedTenant]:
    one, other = node.start({0: [size]}), node.start({0: [size]})
    node.tick(1000.0)
    node.settle()
    return one, other


def answer(node: SimulatedNode, event: ev.PinRequest) -> do.Instruction:
    told = node.feed(event)
    return next(each for each in told if isinstance(each, do.Admitted | do.Refused))


@pytest.mark.parametrize("event", [EXPORT, WHOLE])
def test_a_pin_that_would_shut_another_out_is_refused(
    node: SimulatedNode, event: ev.PinRequest
) -> None:
    one, other = two_of(node, 60)
    told = answer(node, event)
    assert isinstance(told, do.Refused)
    assert (told.tenant, told.gpu, told.serial, told.code) == (1, event.gpu, 77, "capacity")
    assert f"shut out tenant {other.number}, which has 60 B" in told.text
    assert event.call in told.text
    assert not node.view(one).pinned
    for each in (one, other, one, other):
        node.now_s += 1000.0
        each.touch()
        node.settle()
        assert each.is_open


@pytest.mark.parametrize("event", [EXPORT, WHOLE])
def test_a_pin_beside_which_the_others_fit_is_reserved(
    node: SimulatedNode, event: ev.PinRequest
) -> None:
    one, other = two_of(node, 60)
    third = node.start({0: [40]})
    node.kill(other)
    node.settle()
    assert answer(node, event) == do.Admitted(1, event.gpu, 77)
    third.allocate(0, [1])
    node.settle()
    (refused,) = third.refusals
    assert "cannot leave" in refused.text
    assert node.view(one).pinned is (event is WHOLE)


def test_what_a_share_keeps_is_pinned_without_a_question(node: SimulatedNode) -> None:
    one = node.start({0: [60]})
    node.feed(ev.ShareSet(one.number, Share(memory_bytes=60)))
    node.start({0: [40]})
    node.tick(1000.0)
    assert isinstance(answer(node, EXPORT), do.Admitted)


def test_what_is_kept_for_another_is_not_taken_by_a_pin(node: SimulatedNode) -> None:
    node.start({0: [60]})
    other = node.start({0: [1]})
    node.feed(ev.ShareSet(other.number, Share(memory_bytes=45)))
    assert isinstance(answer(node, EXPORT), do.Refused)


@pytest.mark.parametrize("event", [EXPORT, WHOLE])
def test_a_pin_that_is_given_back_leaves_room_for_others(
    node: SimulatedNode, event: ev.PinRequest
) -> None:
    one = node.start({0: [60]})
    node.settle()
    assert isinstance(answer(node, event), do.Admitted)
    node.feed(ev.Unpin(1, event.gpu, event.bytes))
    assert not node.view(one).pinned
    assert node.view(one).gpus[0].pinned_bytes == 0
    other = node.start({0: [60]})
    node.tick(1.0)
    node.settle()
    assert other.is_open


def test_a_second_export_of_the_same_program_counts_with_the_first(node: SimulatedNode) -> None:
    node.start({0: [30, 30]})
    node.start({0: [60]})
    assert isinstance(answer(node, ev.PinRequest(1, 0, 5, 30, CALL)), do.Admitted)
    assert isinstance(answer(node, ev.PinRequest(1, 0, 6, 30, CALL)), do.Refused)


def test_a_pin_is_decided_once_the_processes_of_the_last_agent_are_back() -> None:
    node = SimulatedNode([GpuSpec(0, 100, 100)], Settings(arena_bytes=1000))
    node._begin(settled=False)
    for number in (1, 2):
        node.tenants[number] = SimulatedTenant(number)
        node.feed(ev.Hello(number, resumed=True))
    node.feed(ev.Attach(1, 0, 0, 0, 100, 60, 60, exists=True))
    assert not any(isinstance(told, do.Refused | do.Admitted) for told in node.feed(EXPORT))
    node.feed(ev.Attach(2, 0, 0, 0, 100, 60, 0, exists=True))
    told = node.feed(ev.Settled())
    assert [each.serial for each in told if isinstance(each, do.Refused)] == [77]


def test_a_gpu_that_is_not_attached(node: SimulatedNode) -> None:
    node.join()
    assert node.feed(EXPORT) == [do.Refused(1, 0, 77, "gpu", "GPU 0 was not attached")]
    assert node.feed(ev.PinRequest(9, 0, 1, 1)) == []
    assert node.feed(ev.Unpin(9, 0, 1)) == []


def test_what_happened_without_a_question_counts_all_the_same(node: SimulatedNode) -> None:
    one, other = two_of(node, 60)
    holder, waiter = (one, other) if one.is_open else (other, one)
    holder.pin("export table 01")
    node.settle()
    waiter.touch()
    node.settle()
    assert node.view(holder).pinned
    assert "export table 01" in node.view(waiter).reason
