"""What a process says falsely of its memory costs no other process a byte, or its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from tests.support.arbiter_days import first_quarter, overcommitted_day
from tests.support.arbiter_rules import Anything
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant

CAPACITY, ARENA, ENOUGH = 100, 60, 1000
ABSURD = (1 << 64) - 1
SOON_S = 30.0
Answer = Callable[[ev.ContentReply], Iterable[ev.Event]]


def saying(zero: int, host: int) -> Answer:
    return lambda truth: [ev.ContentReply(truth.tenant, truth.gpu, zero, host)]


def again(truth: ev.ContentReply) -> Iterable[ev.Event]:
    """The truth, and then that all is zeros."""
    return [truth, ev.ContentReply(truth.tenant, truth.gpu, ABSURD, 0)]


def nothing(truth: ev.ContentReply) -> Iterable[ev.Event]:
    del truth
    return []


def void(truth: ev.ContentReply) -> Iterable[ev.Event]:
    """A count that is void as soon as it is said."""
    return [truth, ev.Free(truth.tenant, truth.gpu, 0, 0)]


LIES = {
    "all is zeros": saying(ABSURD, 0),
    "all is data": saying(0, ABSURD),
    "more than it has": saying(ABSURD, ABSURD),
    "said twice": again,
    "not said": nothing,
    "void at once": void,
}
CLAIMS_DATA = ("all is data", "more than it has")
EVERY_LIE = pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))


def node_with(lie: Answer) -> tuple[SimulatedNode, SimulatedTenant, list[SimulatedTenant]]:
    """One GPU, a process that lies about its data, and three whose memory is data by half.

    All of them have 200 bytes, of which 125 are data; the GPU and the arena hold 160.
    """
    settings = Settings(ENOUGH, overcommit=2.0, turn_factor=0.0, overdue=OverduePolicy.REPORT)
    node = SimulatedNode([GpuSpec(0, 140, CAPACITY)], settings)
    liar = node.start({0: [25, 25]})
    liar.answer = lie
    assert use(node, liar, 2)
    others = [node.start({0: [25, 25]}) for _ in range(3)]
    assert all(use(node, one) for one in others)
    node.feed(ev.ArenaSet(ARENA))
    return node, liar, others


def use(node: SimulatedNode, tenant: SimulatedTenant, chunks: int = 1) -> bool:
    """Have a process want a turn, and write to its memory then; whether it got one in time."""
    tenant.touch()
    for _ in range(round(SOON_S / 0.25)):
        settle(node)
        if tenant.is_open and tenant.blocks[0].admitted:
            tenant.touch()
            for chunk in range(chunks):
                tenant.write(tenant.blocks[0], chunk)
            return True
        node.tick(0.25)
    return False


def settle(node: SimulatedNode, steps: int = 2000) -> None:
    """As long as something is under way; a liar may have something to say for ever."""
    for _ in range(steps):
        working = [t for t in node.tenants.values() if t.has_work or t.sent]
        if not working:
            return
        for tenant in working:
            if tenant.has_work:
                tenant.work()
            while tenant.sent:
                node.hear(tenant)
    raise AssertionError("a process keeps the arbiter busy for ever")


def asked(node: SimulatedNode, tenant: SimulatedTenant) -> int:
    told = [each for each in node.told if isinstance(each, do.ContentQuery)]
    return sum(each.tenant == tenant.number for each in told)


@EVERY_LIE
def test_others_have_their_turns_and_every_byte(lie: Answer) -> None:
    node, liar, others = node_with(lie)
    for number in range(12):
        one = others[number % 3]
        assert use(node, one), node.view(one).reason
        assert one.resident_bytes(0) == 50
        assert sum(t.chunks_on(0, resident=False, data=True) for t in others) <= ARENA
    assert asked(node, liar), "what it says was of no importance"
    assert not any(one.refusals for one in others)
    node.kill(liar)
    assert use(node, others[0])


def test_a_count_that_was_not_asked_for_changes_nothing() -> None:
    node, liar, others = node_with(LIES["all is data"])
    use(node, others[0])
    before = node.arbiter.tenants()
    for _ in range(3):
        node.feed(ev.ContentReply(liar.number, 0, ABSURD, 0))
    node.feed(ev.ContentReply(others[0].number, 1, 1, 1))
    node.feed(ev.ContentReply(99, 0, 1, 1))
    assert node.arbiter.tenants() == before
    for one in others:
        use(node, one)
    assert asked(node, liar), "what it said unasked was believed"


def test_two_whose_counts_are_void_by_turns_are_asked_a_few_times_only() -> None:
    node, liar, others = node_with(void)
    node.feed(ev.ArenaSet(ENOUGH))
    second = node.start({0: [25, 25]})
    assert use(node, second, 2)
    second.answer = void
    node.feed(ev.ArenaSet(2 * ARENA))
    for number in range(6):
        one = others[number % 3]
        assert use(node, one) or "the host has no room" in node.view(one).reason
    assert 1 < asked(node, liar) < 100
    assert 1 < asked(node, second) < 100
    node.kill(liar)
    node.kill(second)
    assert all(use(node, one) for one in others)


@pytest.mark.parametrize("first", first_quarter(range(0, 80, 20)))
def test_many_days_with_liars(first: int) -> None:
    lied = 0
    for seed in range(first, first + 20):
        day, dice = Anything(), Random(seed)
        lie = dice.choice(list(LIES))
        for _ in overcommitted_day(day, seed):
            if not day.liars:
                day.liars = list(day.node.tenants.values())[:1]
                day.liars[0].answer = LIES[lie]
            day.what_is_there_fits()
            day.holders_have_every_byte()
            day.the_ledger_never_says_less()
            if lie not in CLAIMS_DATA:  # what it says that it gives back, others may use
                day.evicted_data_has_room()
        lied += asked(day.node, day.liars[0])
        while day.unsettled:
            day.come_back()
        if day.unsettled is not None:
            day.settle()
        if day.liars[0].number in day.node.tenants:
            day.node.kill(day.liars[0])
        day.teardown()
    assert lied, "no liar was asked"
