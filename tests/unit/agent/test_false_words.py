"""What a process says falsely costs no process of another user anything."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from moiety.agent.core.gpu_probe import MADE_WITHIN_S
from moiety.arbiter import events as ev
from moiety.arbiter.settings import Settings
from moiety.devices.interface import Usage
from moiety.model.share import Share
from moiety.wire.layout import UNKNOWN_MAX, AllocFlag, FreeFlag, HelloFlag, Type
from moiety.wire.messages import (
    AmountMessage,
    FreeMessage,
    PinnedMessage,
    UnknownMessage,
)
from tests.support.liar import USER as LIARS
from tests.support.liar import Liar
from tests.support.virtual_agent import CAPACITY, TOTAL, USER, World
from tests.support.virtual_process import VirtualProcess

ABSURD = 1 << 50
MANY_CONTEXTS = 20
FLOOD = 200


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent."""
    settings = Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)
    with World(Random(1), settings) as made:
        made.start_agent()
        yield made


def begin(here: World) -> VirtualProcess:
    """An honest program with a context, and half of the GPU."""
    honest = here.begin()
    honest.attach(0, 1, CAPACITY)
    here.settle()
    honest.allocate(0, [CAPACITY // 2])
    honest.touch()
    here.until_rest(0.2)
    return honest


# The size of a context


def test_a_context_of_an_absurd_size_costs_others_nothing(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    liar.say(AmountMessage(Type.CONTEXT, 0, 0, ABSURD))
    here.until_rest(0.6)
    assert here.agent is not None
    (gpu,) = here.agent.arbiter.gpus()
    assert gpu.residue_bytes == 1, "as was expected of it"
    honest = begin(here)
    assert honest.contexts == {0: 1}
    assert honest.resident_bytes(0) == CAPACITY // 2
    liar.end()
    assert begin(here).contexts == {0: 1}


def test_unreported_memory_makes_no_other_users_context_larger(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    truth = here.devices.usage
    grabbed = CAPACITY // 2

    def usage(index: int) -> Usage:
        found = truth(index)
        return Usage(found.used_bytes + grabbed, None, found.processes | {liar.pid: grabbed})

    here.devices.usage = usage  # type: ignore[method-assign]
    liar.say(AmountMessage(Type.CONTEXT, 0, 0, 0))
    here.until_rest(0.6)
    assert here.agent is not None
    gpu = here.agent.gpus[0]
    (view,) = here.agent.arbiter.gpus()
    assert view.residue_bytes == grabbed, "it is not movable, and is the liar's"
    assert gpu.expected_residue_bytes(USER) == 1
    assert gpu.expected_residue_bytes(LIARS) == grabbed
    liar.end()
    here.devices.usage = truth  # type: ignore[method-assign]
    assert gpu.expected_residue_bytes(LIARS) == 1, "forgotten with its process"


# Contexts that are never made


def residue(here: World) -> int:
    """Bytes that the agent counts for contexts."""
    assert here.agent is not None
    return here.agent.arbiter.gpus()[0].residue_bytes


@pytest.mark.parametrize("flags", [HelloFlag(0), HelloFlag.RESUMED])
def test_no_room_is_kept_for_a_context_that_is_not_made(here: World, flags: HelloFlag) -> None:
    honest = begin(here)
    for _ in range(3):
        liar = Liar(here, flags)
        liar.attach(serial=0 if flags else None)
        liar.say(AmountMessage(Type.CONTEXT, 0, 0, 1))
    assert residue(here) == 4
    here.until_rest(MADE_WITHIN_S + 1, 0.5)
    assert residue(here) == 1, "its own"
    assert here.agent is not None
    told = [e for e in here.agent.journal.ring if e.reason == "ContextMissing"]
    assert {e.uid for e in told} == {LIARS}
    assert begin(here).contexts == {0: 1}
    assert honest.resident_bytes(0) <= CAPACITY // 2


def test_a_context_that_is_made_late_counts_again(here: World) -> None:
    begin(here)
    slow = Liar(here)
    slow.attach()
    here.until_rest(MADE_WITHIN_S + 1, 0.5)
    assert residue(here) == 1
    truth = here.devices.usage

    def usage(index: int) -> Usage:
        found = truth(index)
        return Usage(found.used_bytes + 2, None, found.processes | {slow.pid: 2})

    here.devices.usage = usage  # type: ignore[method-assign]
    slow.say(AmountMessage(Type.CONTEXT, 0, 0, 2))
    here.until_rest(0.6)
    assert residue(here) == 3


@pytest.mark.parametrize("flags", [HelloFlag(0), HelloFlag.RESUMED])
def test_contexts_that_one_user_announces_leave_half_of_the_gpu(flags: HelloFlag) -> None:
    with World(Random(1), Settings(1000)) as here:
        agent = here.start_agent(shared=True)
        for round_ in range(3):
            liars = [Liar(here, flags) for _ in range(MANY_CONTEXTS)]
            for liar in liars:
                liar.attach(serial=0 if flags else None)
            assert residue(here) == TOTAL // 2, f"round {round_}"
            assert "have announced a context" in liars[-1].refusals[0]
            assert begin(here).contexts == {0: 1}
            for each in [*liars]:
                each.end()
            for process in list(here.processes.values()):
                here.kill(process)
            here.settle()
            assert not agent.gpus[0].announced


def test_contexts_that_are_there_after_a_restart_count_as_made() -> None:
    """What one user's programs have already keeps none of its new programs away."""
    with World(Random(1), Settings(1000)) as here:
        here.start_agent(shared=True)
        for _ in range(TOTAL // 2 + 1):
            here.begin().attach(0, 1, CAPACITY)
            here.until_rest(1.0, 0.1)
        here.kill_agent()
        agent = here.start_agent(shared=True)
        here.until_rest(2.0, 0.1)
        assert residue(here) == TOTAL // 2 + 1
        assert not agent.gpus[0].announced
        later = here.begin()
        later.attach(0, 1, CAPACITY)
        here.until_rest(1.0, 0.1)
        assert later.contexts == {0: 1}, later.refusals


def test_where_nvml_names_no_process_a_context_counts_once_it_is_said_to_be_made() -> None:
    with World(Random(1), Settings(1000)) as here:
        here.kernel.has_host_pids = lambda: False  # type: ignore[method-assign]
        agent = here.start_agent(shared=True)
        there = [Liar(here) for _ in range(TOTAL - 1)]
        for each in there:
            each.attach()
            each.say(AmountMessage(Type.CONTEXT, 0, 0, 1))
            here.until_rest(0.1)
        assert not agent.gpus[0].announced
        assert not [no for each in there for no in each.refusals]


def test_one_user_alone_may_announce_as_many_as_fit(here: World) -> None:
    for _ in range(TOTAL - 1):
        liar = Liar(here)
        liar.attach()
        assert not liar.refusals


# Memory from before


RESUMED = HelloFlag.RESUMED | HelloFlag.PINNED


def limit_user(here: World, most: int) -> None:
    """The liar's user may have so much memory."""
    assert here.agent is not None
    here.agent.runtime.feed(ev.UserLimitsSet({LIARS: (most, "the user may have")}))


def counted(here: World) -> int:
    """Bytes that the agent counts as allocated on the GPU."""
    assert here.agent is not None
    return here.agent.arbiter.gpus()[0].allocated_bytes


@pytest.mark.parametrize("claimed", [6, CAPACITY, ABSURD])
def test_memory_from_before_that_no_agent_knows_counts_against_the_user(
    here: World, claimed: int
) -> None:
    limit_user(here, 5)
    liars = [Liar(here, RESUMED) for _ in range(3)]
    for liar in liars:
        liar.attach(claimed, claimed, claimed, serial=0)
    assert counted(here) == 0
    assert all("no agent knows" in liar.refusals[0] or claimed > TOTAL for liar in liars)
    assert here.agent is not None
    assert [e.uid for e in here.agent.journal.ring if e.reason == "Refused"] == [LIARS] * 3
    assert begin(here).resident_bytes(0) == CAPACITY // 2


def test_many_small_lies_are_one_large_one(here: World) -> None:
    limit_user(here, 5)
    liars = [Liar(here, RESUMED) for _ in range(3)]
    for liar in liars:
        liar.attach(2, 2, 2, serial=0)
    assert counted(here) == 4


def test_memory_from_before_counts_against_the_programs_own_limit(here: World) -> None:
    liar = Liar(here, RESUMED, share=Share(memory_limit_bytes=3))
    liar.attach(4, 4, serial=0)
    assert counted(here) == 0
    assert "limit" in liar.refusals[0]


def test_memory_from_before_that_no_agent_knows_shuts_nobody_out(here: World) -> None:
    honest = begin(here)
    liar = Liar(here, RESUMED)
    liar.attach(CAPACITY - 1, 0, CAPACITY - 1, serial=0)
    assert "would shut out" in liar.refusals[0]
    for _ in range(MANY_CONTEXTS):
        Liar(here, RESUMED).attach(0, 0, serial=0)
    assert here.agent is not None
    assert here.agent.arbiter.gpus()[0].capacity_bytes >= CAPACITY // 2
    assert honest.resident_bytes(0) == CAPACITY // 2


def test_a_program_that_reconnects_says_no_more_than_it_had(here: World) -> None:
    limit_user(here, 5)
    liar = Liar(here)
    liar.attach()
    liar.alloc(4)
    liar.reconnect(RESUMED)
    liar.attach(9, 9, 9, serial=0)
    assert counted(here) == 4, "as before its connection broke"
    liar.reconnect(RESUMED)
    liar.attach(4, 4, 4, serial=0)
    assert counted(here) == 4


def test_no_part_of_the_memory_is_larger_than_the_whole(here: World) -> None:
    liar = Liar(here, RESUMED)
    liar.attach(1, ABSURD, ABSURD, serial=0)
    assert here.agent is not None
    (gpu,) = here.agent.arbiter.gpus()
    assert (gpu.allocated_bytes, gpu.resident_bytes) == (1, 1)
    assert begin(here).resident_bytes(0) == CAPACITY // 2


# Credit


@pytest.mark.parametrize("used", [1, 4, ABSURD])
def test_credit_that_nobody_granted_is_not_used(here: World, used: int) -> None:
    limit_user(here, 5)
    honest = begin(here)
    liars = [Liar(here) for _ in range(4)]
    for liar in liars:
        liar.attach()
        liar.alloc(1)
        liar.say(FreeMessage(Type.CREDIT_USED, 0, 0, 0, used, 0))
        assert "without asking, and had 0 B" in liar.refusals[-1]
    assert here.agent is not None
    (gpu,) = here.agent.arbiter.gpus()
    assert gpu.allocated_bytes == CAPACITY // 2 + len(liars)
    assert gpu.free_bytes >= 0
    assert LIARS in [e.uid for e in here.agent.journal.ring if e.reason == "BadMessage"]
    assert honest.resident_bytes(0) == CAPACITY // 2


TO_CREDIT = int(FreeFlag.TO_CREDIT)
PINNED = int(AllocFlag.PINNED)


def test_what_is_freed_becomes_no_credit_where_none_was_granted(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    liar.alloc(2)
    liar.say(FreeMessage(gpu=0, flags=TO_CREDIT, bytes=2, resident_bytes=2))
    assert "had no such credit" in liar.refusals[-1]
    assert here.agent is not None
    assert here.agent.arbiter.credit_bytes(1, 0) == 0


@pytest.mark.parametrize("flags", [0, TO_CREDIT, TO_CREDIT | PINNED])
def test_freed_memory_is_pinned_no_more(here: World, flags: int) -> None:
    liar = Liar(here)
    liar.attach()
    for _ in range(CAPACITY):
        liar.alloc(2, PINNED)
        liar.say(FreeMessage(gpu=0, flags=flags, bytes=2, resident_bytes=2))
        if liar.is_cut:
            liar.reconnect(RESUMED & ~HelloFlag.PINNED)
            liar.attach(0, 0, 0, serial=0)
    assert begin(here).resident_bytes(0) == CAPACITY // 2


def test_no_more_becomes_free_than_was_freed(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    liar.alloc(4)
    liar.say(FreeMessage(gpu=0, bytes=1, resident_bytes=ABSURD))
    assert here.agent is not None
    (gpu,) = here.agent.arbiter.gpus()
    assert (gpu.allocated_bytes, gpu.resident_bytes) == (3, 3)


# A claim that is refused


def test_a_process_whose_memory_is_not_counted_is_sent_away_until_it_is(here: World) -> None:
    first = here.begin()
    first.attach(0, 1, CAPACITY)
    here.settle()
    first.allocate(0, [CAPACITY - 2])
    first.pin("cuIpcGetMemHandle")
    here.until_rest(0.2)
    late = Liar(here, HelloFlag.RESUMED)
    late.attach(4, 4, 0, serial=0)
    assert "no agent knows" in late.refusals[0]
    assert late.is_cut, "nothing else that it says could be understood"
    here.kill(first)
    here.until_rest(0.2)
    late.reconnect(HelloFlag.RESUMED)
    late.attach(4, 4, 0, serial=0)
    assert counted(here) == 4
    assert not late.is_cut


# Names


def test_names_that_a_process_says_are_harmless_and_few(here: World) -> None:
    liar = Liar(here)
    for number in range(FLOOD):
        liar.say(PinnedMessage(reason=f"\x1b[2J{number}"), UnknownMessage(name=f"\x1b{number}"))
    assert here.agent is not None
    (client,) = here.agent.clients.by_number.values()
    assert "\x1b" not in client.pinned + "".join(client.unknown)
    reasons = [event.reason for event in here.agent.journal.ring]
    assert reasons.count("Pinned") <= 3
    assert reasons.count("UnknownCall") <= UNKNOWN_MAX


# Memory that is said to be gone


@pytest.mark.parametrize("how", ["freed", "detached from"])
def test_memory_that_is_there_after_all_is_charged_to_the_process_that_has_it(
    here: World, how: str
) -> None:
    liar = Liar(here)
    liar.attach()
    liar.alloc(4)
    liar.say(FreeMessage(gpu=0, bytes=4, resident_bytes=4))
    if how == "detached from":
        liar.say(AmountMessage(Type.DETACH))
        liar.attach()
    honest = begin(here)
    truth = here.devices.usage

    def usage(index: int) -> Usage:
        found = truth(index)
        return Usage(found.used_bytes + 5, None, found.processes | {liar.pid: 5})

    here.devices.usage = usage  # type: ignore[method-assign]
    honest.need(0, 3)
    here.until_rest(1.0)
    assert here.agent is not None
    residue = {v.tenant: v.gpus[0].residue_bytes for v in here.agent.arbiter.tenants()}
    assert residue[1] == 5, "it is the liar's, as NVML counts it"
    (named,) = [e for e in here.agent.journal.ring if e.reason == "Unreported"]
    assert (named.uid, named.pid) == (LIARS, liar.pid)
