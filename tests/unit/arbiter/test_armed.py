"""What is armed is what the arbiter decides, at any time within its bounds; nothing else is."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.schedule.armed import Armed
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Priority, Share
from tests.support.arbiter_days import first_quarter, light_day, pass_by
from tests.support.arbiter_rules import Anything
from tests.support.simulated_node import SimulatedNode, handle

HOLDER, OTHER = 1, 2


LATENCY = Share(latency=True)
PLAIN = Share()


@pytest.fixture
def arbiter() -> Arbiter:
    """A holder, and an idle tenant of the latency class."""
    arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000, turn_min_s=0.0))
    for number, share in ((HOLDER, PLAIN), (OTHER, LATENCY)):
        for event in (ev.Hello(number, share=share), ev.Attach(number, 0, 1, 2, 100)):
            handle(arbiter, 0.0, event)
    handle(arbiter, 1.0, ev.LeaseRequest(HOLDER))
    return arbiter


def revokes(arbiter: Arbiter) -> list[Armed]:
    return [each for each in arbiter.armed() if not each.grants]


def test_a_tenant_of_a_higher_class_takes_the_lease_when_it_asks(arbiter: Arbiter) -> None:
    (armed,) = arbiter.armed()
    assert (armed.source, armed.target, armed.epoch, armed.grants) == (OTHER, HOLDER, 1, False)
    assert armed.not_before_s <= 1.0


def test_it_is_good_until_the_arbiter_wants_to_look_again(arbiter: Arbiter) -> None:
    (armed,) = arbiter.armed()
    assert armed.not_after_s == (arbiter.deadline_s or math.inf)


def test_a_lease_that_waits_for_one_drain_is_armed(arbiter: Arbiter) -> None:
    handle(arbiter, 2.0, ev.LeaseRequest(OTHER))
    (armed,) = arbiter.armed()
    assert (armed.source, armed.target, armed.epoch, armed.drained_epoch) == (HOLDER, OTHER, 1, 1)
    assert armed.not_after_s == arbiter.deadline_s, "it may be opened again, or be overdue"
    assert arbiter.deadline_s <= 2.0 + Settings(1).reopen_after_s
    handle(arbiter, 3.0, ev.Drained(HOLDER, 1, 0, 0))
    assert not any(each.grants for each in arbiter.armed())


def test_the_latency_class_gives_way_only_where_it_is_silent() -> None:
    """It is asked for its silences where more tenants have memory than fit."""
    arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000, turn_min_s=0.0))
    for number, share in ((HOLDER, LATENCY), (OTHER, PLAIN), (3, PLAIN)):
        for event in (ev.Hello(number, share=share), ev.Attach(number, 0, 1, 2, 100)):
            handle(arbiter, 0.0, event)
    handle(arbiter, 1.0, ev.LeaseRequest(3))
    handle(arbiter, 1.0, ev.AllocRequest(3, 0, 2, 95))
    handle(arbiter, 2.0, ev.LeaseRequest(HOLDER))
    handle(arbiter, 2.0, ev.Drained(3, 1, 0, 95))
    told = handle(arbiter, 2.0, ev.AllocRequest(HOLDER, 0, 2, 10))
    (order,) = [each for each in told if isinstance(each, do.Evict)]
    handle(arbiter, 2.0, ev.Evicted(3, 0, order.bytes, 95 - order.bytes, last=True, failed=False))
    assert arbiter.armed() == []
    handle(arbiter, 3.0, ev.Idle(HOLDER, 1))
    silent_s = next(t for t in arbiter._context.ledger.tenants.values()).usage.silent_since_s
    assert silent_s is not None
    (armed,) = arbiter.armed()
    assert (armed.source, armed.target, armed.grants) == (OTHER, HOLDER, False)
    assert armed.not_before_s == pytest.approx(silent_s + Settings(1).idle_free_s)
    late_s = armed.not_before_s + 0.001
    assert handle(arbiter, late_s, ev.LeaseRequest(OTHER))[0] == do.Revoke(HOLDER, 1)


def row(armed: Armed | None) -> list[Armed]:
    """A transition, and those that follow."""
    return [] if armed is None else [armed, *row(armed.then)]


@pytest.fixture
def watched(arbiter: Arbiter) -> Arbiter:
    """The tenant of the latency class holds, and is watched since the other one waits."""
    for event in (
        ev.LeaseRequest(OTHER),
        ev.Drained(HOLDER, 1, 0, 0),
        ev.LeaseRequest(HOLDER),
    ):
        told = handle(arbiter, 2.0, event)
    assert told == [do.SetIdleTimeout(OTHER, Settings(1).idle_free_s)]
    return arbiter


def test_a_silence_and_what_follows_it_are_armed(watched: Arbiter) -> None:
    (armed,) = watched.armed()
    assert [(each.source, each.target, each.epoch, each.grants) for each in row(armed)] == [
        (OTHER, OTHER, 1, False),
        (OTHER, HOLDER, 2, True),
        (OTHER, HOLDER, 2, False),
        (HOLDER, OTHER, 2, True),
    ]
    assert [each.silent_epoch for each in row(armed)] == [1, None, None, None]
    assert [each.drained_epoch for each in row(armed)] == [None, 1, None, 2]


def test_no_revoke_in_a_row_is_armed_for_long(watched: Arbiter) -> None:
    (armed,) = watched.armed()
    _, _, back, _ = row(armed)
    assert back.not_after_s <= 2.0 + 0.1


def test_a_silence_of_another_lease_is_not(watched: Arbiter) -> None:
    handle(watched, 2.01, ev.Idle(OTHER, 1))
    assert [each.silent_epoch for each in watched.armed()] == [None]


def test_what_python_has_to_tell_with_a_grant_ends_the_row(watched: Arbiter) -> None:
    """The one that gets the lease was told of another bound on its queued work."""
    watched._context.ledger.tenants[HOLDER].lease.queue_s = 1.0
    (armed,) = watched.armed()
    assert len(row(armed)) == 2
    handle(watched, 2.01, ev.Idle(OTHER, 1))
    told = handle(watched, 2.02, ev.Drained(OTHER, 1, 0, 0))
    assert [type(each) for each in told] == [do.Grant, do.SetQueueDepth]


@pytest.mark.parametrize(
    "event",
    [
        ev.GangJoined(HOLDER, "gang", 1),
        ev.AllocRequest(OTHER, 0, 7, 10),
        ev.AllocRequest(HOLDER, 0, 7, 1000),
        ev.Pinned(HOLDER, "a call"),
        ev.ShareSet(HOLDER, LATENCY),
        ev.ShareSet(HOLDER, Share(gpu_limit=0.5)),
        ev.ShareSet(OTHER, Share(gpu_limit=0.5, latency=True)),
        ev.ShareSet(OTHER, PLAIN),
        ev.ShareSet(OTHER, Share(priority=Priority.LOW, latency=False)),
        ev.Detach(OTHER, 0),
        ev.Left(OTHER),
        ev.Left(HOLDER),
        ev.GpuLost(0),
        ev.LeaseRequest(HOLDER),
    ],
)
def test_in_doubt_nothing_is_armed(arbiter: Arbiter, event: ev.Event) -> None:
    before = revokes(arbiter)
    assert before
    handle(arbiter, 1.5, event)
    if isinstance(event, ev.AllocRequest) and event.bytes == 1000:
        assert revokes(arbiter) == before, "it was refused, so nothing has changed"
    else:
        assert revokes(arbiter) == []


def test_a_new_agent_that_only_listens_arms_nothing() -> None:
    gpu, settings = GpuSpec(0, 120, 100), Settings(arena_bytes=1000)
    arbiter = Arbiter([gpu], settings, settled=False)
    handle(arbiter, 0.0, ev.Hello(HOLDER, True, 1, resumed=True))
    handle(arbiter, 0.0, ev.Attach(HOLDER, 0, 0, 2, 100, exists=True))
    handle(arbiter, 0.0, ev.Hello(OTHER, share=LATENCY))
    assert arbiter.armed() == []


def days(first: int, last: int, *, light: bool) -> Counter[bool]:
    """Days on which everything that is armed is compared with what is decided."""
    fired: Counter[bool] = Counter()
    for seed in range(first, last):
        day = Anything()
        for _ in light_day(day, seed) if light else pass_by(day, seed):
            day.node.arms = True
        fired.update(armed.grants for armed in day.node.fired)
        assert isinstance(day.node, SimulatedNode)
        day.teardown()
    return fired


@pytest.mark.slow
@pytest.mark.parametrize("first", first_quarter(range(0, 80, 20)))
def test_what_is_armed_is_what_is_decided(first: int) -> None:
    fired = days(first, first + 20, light=True)
    assert fired[True]
    assert fired[False]


@pytest.mark.slow
@pytest.mark.parametrize("first", first_quarter(range(1000, 1040, 20)))
def test_the_same_where_much_is_under_way(first: int) -> None:
    days(first, first + 20, light=False)
