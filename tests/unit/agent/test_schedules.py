"""Days in virtual time on which everything goes wrong: what must hold, holds.

`python -m tests.support.chaos 4711` lives one of them again.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.settings import OverduePolicy, Settings
from tests.support.chaos import DAYS_IN_CI, live
from tests.support.virtual_agent import CAPACITY, USER, World, no_descriptor_stays
from tests.support.virtual_process import VirtualProcess

PARTS = 10
LOST_ONCE = (
    4357,  # two evictions of room that was not used: the second one's answer was never the last
)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_days(part: int) -> None:
    with no_descriptor_stays():
        for seed in range(part, DAYS_IN_CI, PARTS):
            live(seed)


@pytest.mark.parametrize("seed", LOST_ONCE)
def test_a_day_that_was_lost_once(seed: int) -> None:
    with no_descriptor_stays():
        assert live(seed).faults


def test_a_seed_replays() -> None:
    first, again = live(4711), live(4711)
    assert first.faults
    assert (first.faults, first.messages) == (again.faults, again.messages)


def world(overdue: OverduePolicy = OverduePolicy.REPORT) -> World:
    settings = Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0, overdue=overdue)
    made = World(Random(0), settings)
    made.start_agent()
    return made


def program(here: World, *chunks: int) -> VirtualProcess:
    """One that has its memory, and its lease if nobody is in the way."""
    process = here.begin()
    process.attach(0, 1, CAPACITY)
    here.settle()
    process.allocate(0, list(chunks))
    process.touch()
    here.until_rest(0.3)
    return process


def has_memory(here: World, process: VirtualProcess) -> bool:
    """Whether it gets what it was refused, or waited for, if it asks again."""
    if not process.blocks:
        process.allocate(0, [3, 3])
    process.touch()
    here.until_rest(3.0)
    process.touch()
    here.check()
    return process.resident_bytes(0) == 6


def states(here: World) -> dict[int, str]:
    assert here.agent is not None
    return {view.tenant: view.state for view in here.agent.arbiter.tenants()}


def test_a_connection_that_breaks_costs_nothing() -> None:
    with world() as here:
        holder = program(here, 3, 3)
        waiter = program(here, 3, 3)
        assert (holder.is_open, waiter.is_open) in ((True, False), (False, True))
        other = waiter if waiter.is_open else holder
        here.stop(other)
        other.touch()
        other.drop()
        here.go_on(other)
        for _ in range(30):
            here.settle()
            here.check()
            here.wait(0.05)
            holder.touch()
            waiter.touch()
        assert holder.epoch > 2
        assert waiter.epoch > 2
        assert len(states(here)) == 2


def test_who_is_stopped_when_its_connection_breaks_keeps_what_it_has() -> None:
    with world() as here:
        holder = program(here, 3, 3)
        holder.drop()
        here.stop(holder)
        waiter = program(here, 3, 3)
        for _ in range(20):
            here.until_rest(1.0)
            here.check()
        assert not waiter.resident_bytes(0)
        here.go_on(holder)
        here.until_rest(3.0)
        assert has_memory(here, waiter)


def test_who_is_stopped_when_the_agent_is_replaced_keeps_what_it_has() -> None:
    with world() as here:
        holder = program(here, 3, 3)
        here.stop(holder)
        here.kill_agent()
        agent = here.start_agent()
        waiter = program(here, 3, 3)
        for _ in range(10):
            here.until_rest(2.0)
            here.check()
        assert not waiter.resident_bytes(0)
        assert [event.reason for event in agent.journal.ring if event.reason == "Missing"]
        here.go_on(holder)
        here.until_rest(3.0)
        assert has_memory(here, waiter)
        here.kill(waiter)
        here.kill(holder)
        here.until_rest(3.0)
        here.check_empty()


@pytest.mark.parametrize(("most", "counted"), [(0, 3), (2, 5)])
def test_who_is_missing_may_still_use_what_a_dead_agent_allowed_it(most: int, counted: int) -> None:
    with world() as here:
        holder = program(here, 3)
        here.stop(holder)
        here.kill_agent()
        here.settings = replace(
            here.settings, allowance_bytes=most, allowance_part=1, allowance_step=1
        )
        agent = here.start_agent()
        here.until_rest(3.0)
        (missing,) = agent.arbiter.tenants()
        assert missing.gpus[0].allocated_bytes == counted
        assert agent.recovery.outlived(holder.number), "the watch is not to take it for a stranger"


def test_what_is_missing_has_counts_for_what_its_user_may_have() -> None:
    with world() as here:
        holder = program(here, 3)
        here.stop(holder)
        here.kill_agent()
        agent = here.start_agent()
        here.until_rest(3.0)
        agent.runtime.feed(ev.UserLimitsSet({USER: (5, "alice may have there")}))
        other = program(here, 3)
        (no,) = other.refusals
        assert "more on GPU 0 would exceed what alice may have there (3 B in use)" in no.text
        (event,) = [event for event in agent.journal.ring if event.reason == "Missing"]
        assert (event.pid, event.uid) == (holder.number, USER), "its user sees it"
        here.kill(holder)
        here.until_rest(3.0)
        other.allocate(0, [3])
        here.until_rest(3.0)
        assert len(other.refusals) == 1


def test_the_first_event_of_an_eviction_tells_all_that_left() -> None:
    with world() as here:
        program(here, 1, 1, 1, 1, 1, 1)
        program(here, 4, 4)
        assert here.agent is not None
        spans = [span for span in here.agent.timeline.spans if span[0] == "evicting"]
        told = [event.message for event in here.agent.journal.ring if event.reason == "Evicted"]
        assert spans[0][5] > 1, "it left in more than one piece"
        assert told[0] == f"{spans[0][5]} B moved out to the host"


def test_who_is_dead_is_not_missing_any_more() -> None:
    with world() as here:
        holder = program(here, 3, 3)
        here.stop(holder)
        here.kill_agent()
        here.start_agent()
        waiter = program(here, 3, 3)
        here.until_rest(3.0)
        assert not waiter.resident_bytes(0)
        here.kill(holder)
        here.until_rest(1.0)
        assert has_memory(here, waiter)


@pytest.mark.parametrize("lost", ["agent", "connection"])
def test_a_fence_outlives(lost: str) -> None:
    with world(OverduePolicy.FENCE) as here:
        holder = program(here, 3, 3)
        holder.depends = 1 << 40
        waiter = program(here, 3, 3)
        here.until_rest(3.0)
        assert "fenced" in states(here).values()
        if lost == "agent":
            here.kill_agent()
            here.settle()
            here.start_agent()
        else:
            holder.drop()
        here.until_rest(3.0)
        assert not holder.is_open
        assert states(here)[holder.tenant] == "fenced"
        here.check()
        holder.depends = 0
        here.until_rest(1.0)
        assert states(here)[holder.tenant] != "fenced"
        assert waiter.is_open
        assert not any(fenced for _, fenced in here.written.values())


def test_who_is_only_slow_to_find_a_new_agent_costs_nobody_an_allocation() -> None:
    with world() as here:
        slow = program(here, 3, 3)
        other = here.begin()
        other.attach(0, 1, CAPACITY)
        here.settle()
        slow.stopped = True  # not by a signal: a busy machine does not let it run
        here.kill_agent()
        here.start_agent()
        here.settle()
        other.allocate(0, [3, 3])
        here.until_rest(3.0)
        slow.stopped = False
        other.touch()
        here.until_rest(3.0)
        assert other.refusals == []
        assert has_memory(here, other)


def test_who_never_finds_a_new_agent_counts_for_as_long_as_it_has_memory() -> None:
    with world() as here:
        lost = program(here, 3, 3)
        lost.stopped = True  # not by a signal: it may go on at any moment
        here.kill_agent()
        here.start_agent()
        here.until_rest(30.0)
        other = program(here, 3, 3)
        assert not has_memory(here, other)
        here.kill(lost)
        assert has_memory(here, other)


def test_nobody_is_believed_who_claims_a_lease_that_nobody_gave() -> None:
    with world() as here:
        honest = program(here, 3, 3)
        liar = here.begin()
        liar.claims_lease = True
        here.until_rest(0.5)
        assert not liar.is_open
        assert honest.is_open
