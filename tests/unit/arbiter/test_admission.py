"""What is refused, when, and in which words."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share
from tests.support.shares import promise
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def refusal(node: SimulatedNode, tenant: SimulatedTenant) -> do.Refused:
    node.settle()
    (only,) = tenant.refusals
    return only


def test_above_the_limit(node: SimulatedNode) -> None:
    tenant = node.join()
    tenant.attach(0, 0, 40)
    node.settle()
    tenant.allocate(0, [50])
    assert refusal(node, tenant).code == "limit"
    assert "limit of 40" in tenant.refusals[0].text


@pytest.mark.parametrize(
    ("workload", "share", "is_refused"),
    [
        ("w", Share(memory_limit_bytes=40), True),
        ("w", Share(memory_limit_part=0.4), True),
        ("w", Share(), False),
        ("other", Share(memory_limit_bytes=40), False),
        ("", Share(memory_limit_bytes=40), False),
    ],
)
def test_a_limit_is_one_of_all_processes_of_a_workload(
    node: SimulatedNode, workload: str, share: Share, *, is_refused: bool
) -> None:
    first, second = node.join(workload="w" if workload else ""), node.join(workload=workload)
    for tenant in (first, second):
        tenant.attach(0, 0, 100)
        node.settle()
        promise(node, tenant, share)
    first.allocate(0, [25])
    node.settle()
    second.allocate(0, [20])
    node.settle()
    if not is_refused:
        assert not second.refusals
        return
    assert "limit of 40 B (25 B in use)" in refusal(node, second).text
    first.free(first.blocks[0])
    node.settle()
    assert second.allocate(0, [20]) is second.blocks[-1]
    node.settle()
    assert second.blocks[-1].admitted


def test_beside_memory_that_cannot_leave(node: SimulatedNode) -> None:
    pinned = node.start({0: [30]})
    pinned.pin("cuIpcGetMemHandle")
    node.settle()
    tenant = node.start({0: [60]})
    tenant.allocate(0, [20])
    assert refusal(node, tenant).code == "capacity"
    assert "cannot leave" in tenant.refusals[0].text


def test_pinned_memory_that_would_shut_somebody_out(node: SimulatedNode) -> None:
    node.start({0: [80]})
    tenant = node.start({0: []})
    tenant.allocate(0, [30], pinned=True)
    assert refusal(node, tenant).code == "capacity"
    assert "would shut out tenant 1" in tenant.refusals[0].text


def test_more_than_gpu_and_host_hold() -> None:
    node = SimulatedNode([GpuSpec(0, 100, 100)], Settings(arena_bytes=50))
    node.start({0: [90]})
    tenant = node.start({0: [60]})
    tenant.allocate(0, [10])
    assert refusal(node, tenant).code == "capacity"
    assert "--arena" in tenant.refusals[0].text


def test_a_context_beside_one_that_needs_everything(node: SimulatedNode) -> None:
    node.start({0: [100]}, residue_bytes=15)
    tenant = node.join()
    tenant.attach(0, 10, 100)
    assert refusal(node, tenant).code == "capacity"
    assert "tenant 1 needs" in tenant.refusals[0].text


@pytest.mark.parametrize(
    "event", [ev.Attach(1, 7, 1, 0, 10), ev.AllocRequest(1, 0, 1, 10), ev.AllocRequest(1, 7, 1, 10)]
)
def test_a_gpu_that_is_not_there(node: SimulatedNode, event: ev.Event) -> None:
    node.join()
    (told,) = node.feed(event)
    assert isinstance(told, do.Refused)
    assert told.code == "gpu"


def test_a_request_that_was_admitted_is_refused_once_it_is_hopeless(node: SimulatedNode) -> None:
    pinned = node.start({0: [60]})
    tenant = node.start({0: [50]})  # waits for its turn
    pinned.pin("cuIpcGetMemHandle")
    assert refusal(node, tenant).code == "capacity"
    assert "no longer fit on GPU" in tenant.refusals[0].text


def test_who_does_not_fit_beside_a_pinned_one_is_told_why(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(0.2)
    node.settle()
    second.touch()
    second.pin("cuIpcGetMemHandle")
    first.touch()
    third = node.start({0: [30]})
    node.settle()
    assert "do not fit into" in node.view(first).reason
    assert "cuIpcGetMemHandle" in node.view(first).reason
    assert third.is_open  # beside the pinned one, past the hopeless one
    node.kill(second)
    node.settle()
    assert first.is_open


def test_pinned_while_its_memory_was_on_its_way_out(node: SimulatedNode) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    node.tick(0.2)
    assert node.view(second).state == "restoring"
    first.pin("cuIpcGetMemHandle")
    node.hear(first)
    node.settle()
    first.touch()
    node.settle()
    assert first.is_open
    assert second.refusals  # what it asked for can not be held beside that


@pytest.mark.parametrize(
    "event",
    [
        ev.Left(9),
        ev.Attach(9, 0, 1, 0, 10),
        ev.Measured(9, 0, 1),
        ev.Detach(9, 0),
        ev.AllocRequest(9, 0, 1, 1),
        ev.Free(9, 0, 1, 1),
        ev.LeaseRequest(9),
        ev.Restored(9),
        ev.Resident(9, 0, 1),
        ev.Drained(9, 1),
        ev.Evicted(9, 0, 1, 1),
        ev.Idle(9, 1),
        ev.Pinned(9),
        ev.Tick(),
        ev.Settled(),
    ],
)
def test_messages_of_the_dead_are_ignored(node: SimulatedNode, event: ev.Event) -> None:
    assert node.feed(event) == []
