"""Drains that make no progress, processes that are stopped, and what is done about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode, handle
from tests.support.simulated_tenants import SimulatedTenant

NEVER = 1 << 40


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000, turn_factor=0.0))


def dependent(node: SimulatedNode, passes: int, size: int = 60) -> SimulatedTenant:
    """A holder whose work ends only after its threads passed the gate so often."""
    tenant = node.start({0: [size]})
    tenant.depends = passes
    return tenant


def go(node: SimulatedNode, seconds: float, *standing: SimulatedTenant) -> list[do.Instruction]:
    """Let time pass in small steps; a thread of each of those comes to the gate again and again."""
    told: list[do.Instruction] = []
    for _ in range(round(seconds / 0.01)):
        before = len(node.told)
        node.tick(0.01)
        for tenant in standing:
            if not tenant.is_open:
                tenant.touch()
        node.settle()
        told += node.told[before:]
    return told


def test_work_that_waits_for_a_thread_at_the_gate_is_drained(node: SimulatedNode) -> None:
    holder = dependent(node, 1)
    waiter = node.start({0: [60]})
    told = go(node, 0.6, holder)
    assert any(isinstance(t, do.Grant) and t.tenant == waiter.number for t in told)
    assert not any(isinstance(each, do.Overdue) for each in told)
    go(node, 0.6, holder)
    assert holder.is_open, "and it is served like everybody"


def test_who_needs_several_moments_gets_them(node: SimulatedNode) -> None:
    holder = dependent(node, 3)
    waiter = node.start({0: [60]})
    told = go(node, 3.0, holder)
    assert any(isinstance(t, do.Grant) and t.tenant == waiter.number for t in told)


def test_without_a_thread_at_the_gate_nothing_is_reopened(node: SimulatedNode) -> None:
    holder = dependent(node, 1)
    node.start({0: [60]})
    told = go(node, 5.0)
    assert not any(isinstance(each, do.Grant) for each in told)
    assert node.view(holder).state == "draining"


def test_who_cannot_be_drained_is_named_and_gets_its_lease_back(node: SimulatedNode) -> None:
    holder = dependent(node, NEVER)
    waiter = node.start({0: [60]})
    small = node.start({0: [30]})
    small.touch()
    told = go(node, 9.5, holder, small)
    granted = [t for t in told if isinstance(t, do.Grant) and t.tenant == holder.number]
    assert len(granted) == node.settings.reopen_most + 1
    assert (node.view(holder).state, holder.is_open) == ("undrainable", True)
    assert [t.state for t in told if isinstance(t, do.Overdue)] == ["undrainable"]
    assert "waits for tenant 1, which cannot be drained" in node.view(waiter).reason
    assert small.is_open, "what fits beside it goes on"

    told = go(node, 30.0, holder, small)
    tries = [t for t in told if isinstance(t, do.Revoke) and t.tenant == holder.number]
    assert 2 <= len(tries) <= 6, "it is tried again, less and less often"
    assert not any(isinstance(each, do.Overdue) and each.kill for each in told)
    holder.depends = 0
    go(node, 70.0, holder)
    assert node.view(waiter).turns


def test_a_fenced_one_gets_no_lease_until_it_answers(node: SimulatedNode) -> None:
    node.feed(ev.SettingsSet(replace(node.settings, overdue=OverduePolicy.FENCE)))
    holder = dependent(node, NEVER)
    waiter = node.start({0: [60]})
    small = node.start({0: [30]})
    go(node, 11.0, holder, small)
    assert (node.view(holder).state, holder.is_open) == ("fenced", False)
    assert "which does not give the GPU back" in node.view(waiter).reason
    assert small.is_open
    told = go(node, 30.0, holder, small)
    assert not any(isinstance(t, do.Grant) and t.tenant == holder.number for t in told)
    holder.depends = 0
    go(node, 1.0, holder)
    assert node.view(waiter).turns


def test_who_shares_time_with_an_undrainable_one_goes_on_beside_it(node: SimulatedNode) -> None:
    holder = dependent(node, NEVER, size=30)
    rival = node.join()
    node.feed(ev.ShareSet(rival.number, Share(gpu=0.9)))
    rival.attach(0, 0, 100)
    node.settle()
    rival.allocate(0, [30])
    node.settle()
    go(node, 9.5, holder, rival)
    assert node.view(holder).state == "undrainable"
    assert rival.is_open


def test_a_stopped_one_is_named_and_goes_on_when_continued(node: SimulatedNode) -> None:
    holder = node.start({0: [60]})
    holder.stopped = True
    waiter = node.start({0: [60]})
    small = node.start({0: [30]})
    go(node, 0.5, small)
    assert node.view(holder).state == "stopped"
    assert "waits for tenant 1, which is stopped" in node.view(waiter).reason
    assert small.is_open
    holder.stopped = False
    go(node, 0.5)
    assert waiter.is_open


def test_one_that_is_stopped_while_it_comes_is_waited_for_only_by_those_without_room(
    node: SimulatedNode,
) -> None:
    first = node.start({0: [60]})
    second = node.start({0: [60]})
    go(node, 0.3)
    assert second.is_open
    first.touch()
    node.hear(first)
    first.stopped = True
    go(node, 0.5)
    assert node.view(first).state == "queued"
    assert "it is stopped" in node.view(first).reason
    second.touch()
    small = node.start({0: [30]})
    go(node, 0.5, second, small)
    assert small.is_open
    assert "waits for tenant 1, which is stopped" in node.view(second).reason
    first.stopped = False
    go(node, 1.0, second)
    assert node.view(first).turns == 2
    assert node.view(second).turns == 2


def test_one_that_was_stopped_while_it_came_waits_as_before_once_it_is_continued(
    node: SimulatedNode,
) -> None:
    first, second = node.start({0: [60]}), node.start({0: [60]})
    go(node, 0.3)
    first.touch()
    node.hear(first)
    first.stopped = True
    go(node, 0.5)
    assert "it is stopped" in node.view(first).reason
    node.feed(ev.StopChecked(first.number, False))
    assert node.view(first).state in ("queued", "restoring")
    assert "stopped" not in node.view(first).reason
    first.stopped = False
    go(node, 1.0, second)
    assert node.view(first).turns == 2


def test_a_count_from_before_a_reopening_is_void(node: SimulatedNode) -> None:
    holder = dependent(node, 1)
    node.start({0: [30]})
    node.start({0: [60]})
    node.tick(0.2)
    holder.touch()
    node.hear(holder)
    old_epoch = holder.epoch
    assert node.view(holder).state == "draining"
    node.tick(0.25)
    assert node.view(holder).state == "holding"
    node.tick(0.06)
    assert node.view(holder).state == "draining"
    node.feed(ev.Resident(holder.number, 0, 10))
    node.feed(ev.Drained(holder.number, old_epoch))
    assert node.view(holder).gpus[0].resident_bytes == 60
    assert node.view(holder).state == "draining"


@pytest.mark.parametrize("policy", [OverduePolicy.REPORT, OverduePolicy.FENCE])
def test_others_go_first_if_what_was_to_be_restored_is_not_in_time(policy: OverduePolicy) -> None:
    settings = Settings(arena_bytes=1000, turn_factor=0.0, revoke_deadline_s=1.0, overdue=policy)
    node = SimulatedNode([GpuSpec(0, 120, 100)], settings)
    silent, other = node.start({0: [60]}), node.start({0: [60]})
    node.tick(0.5)
    node.settle()
    silent.touch()
    silent.restores_never = True
    told = go(node, 12.0, silent, other)
    grants = [each for each in told if isinstance(each, do.Grant) and each.tenant == other.number]
    late = [each for each in told if isinstance(each, do.Overdue)]
    assert len(grants) >= 3, "a turn after each deadline"
    assert {each.tenant for each in late} == {silent.number}
    assert late[0].state == "restoring"
    silent.restores_never = False
    told = go(node, 4.0, silent, other)
    assert any(isinstance(each, do.Grant) and each.tenant == silent.number for each in told)


def test_an_answer_without_bytes_does_not_renew_a_deadline() -> None:
    """A process that says again and again that nothing has left is overdue all the same."""
    made = Arbiter([GpuSpec(0, 120, 100)], Settings(1000, revoke_deadline_s=1.0))
    for number in (1, 2):
        handle(made, 0.0, ev.Hello(number))
        handle(made, 0.0, ev.Attach(number, 0, 1, 0, 100))
        handle(made, 0.0, ev.AllocRequest(number, 0, 2, 60))
    (revoke,) = [e for e in handle(made, 0.5, ev.Tick()) if isinstance(e, do.Revoke)]
    assert do.Evict(1, 0, 20) in handle(made, 0.5, ev.Drained(1, revoke.epoch, 0, 60))
    late: list[do.Instruction] = []
    for step in range(1, 15):
        late += handle(made, 0.5 + step * 0.2, ev.Evicted(1, 0, 0, 60))
        late += handle(made, 0.5 + step * 0.2, ev.Tick())
    assert {each.tenant for each in late if isinstance(each, do.Overdue)} == {1}
    told = handle(made, 4.0, ev.Evicted(1, 0, 20, 40, last=True))
    assert do.Admitted(2, 0, 2) in told
