"""Whatever a process says, in whatever order: it costs no program of another user anything."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.arbiter.state.tenant import EPOCHS
from moiety.wire.layout import HelloFlag, ShareFlag, Type
from moiety.wire.messages import LeaseNoteMessage, ShareMessage
from tests.support.liar import USER, Liar
from tests.support.lying_shim import DEADLINE_S, Cost, Lies, Twins, lie_for, lies
from tests.support.virtual_agent import CAPACITY, no_descriptor_stays

LIES = 1500
SEEDS = 2
SOAK_AT_A_TIME = 4000
SOAK = 1_000_000 // SOAK_AT_A_TIME
FEW = 40
TWIN_SEEDS = 4


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 1 << 32))
def test_any_values_in_any_order(dice: Random, order: int) -> None:
    assert lie_for(dice, FEW, Random(order)) >= FEW


@pytest.mark.parametrize("seed", range(SEEDS))
def test_many_lies(seed: int) -> None:
    assert lie_for(Random(seed), LIES) >= LIES


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_million_lies() -> None:
    told = sum(lie_for(Random(seed), SOAK_AT_A_TIME) for seed in range(SOAK))
    assert told >= SOAK * SOAK_AT_A_TIME
    print(f"{told} lies")


def longest_waits_s(kind: type[Lies]) -> list[float]:
    """How long an honest program waits at most beside one other, a liar or its honest twin."""
    found = []
    for seed in range(TWIN_SEEDS):
        with lies(Random(seed), Random(seed), kind, at_one_time=1) as here:
            while here.told < LIES:
                here.happen()
        found.append(here.longest_s)
    return sorted(found)


def test_a_liar_makes_others_wait_one_deadline_longer_than_its_honest_twin() -> None:
    """Each of its processes does: a wait can meet the end of one and the deadline of the next."""
    waits, honest_s = longest_waits_s(Lies), longest_waits_s(Twins)[-1]
    assert 0 < waits[TWIN_SEEDS // 2] <= honest_s + DEADLINE_S
    assert waits[-1] <= honest_s + 2 * DEADLINE_S


def test_a_cost_is_seen() -> None:
    with lies(Random(1), Random(1)) as here:
        assert here.world.agent is not None
        client = here.world.agent.clients.by_number[here.honest[0].tenant]
        client.limits[0] -= 1
        with pytest.raises(Cost):
            here.check()
        client.limits[0] += 1


# What it found


def test_an_epoch_that_is_the_last_is_followed_by_the_first() -> None:
    with no_descriptor_stays(), lies(Random(1), Random(1)) as here:
        for epoch in (EPOCHS - 1, (1 << 32) - 1):
            liar = Liar(here.world, HelloFlag.RESUMED, epoch=epoch)
            liar.attach()
            liar.say(LeaseNoteMessage(Type.LEASE_REQUEST))
            here.world.until_rest(1.0, 0.1)
            assert [m.epoch for m in liar.heard(LeaseNoteMessage)][:1] == [0]
            liar.end()


@pytest.mark.parametrize("size", [3, CAPACITY, 1 << 63])
def test_memory_of_another_that_no_agent_knows_is_no_more_than_the_user_may_have(
    size: int,
) -> None:
    with lies(Random(1), Random(1)) as here:
        liar = Liar(here.world, HelloFlag.RESUMED, uid=USER)
        liar.attach()
        flags = int(ShareFlag.HELD)
        liar.say(ShareMessage(Type.IMPORT, 1, bytes(32), gpu=0, flags=flags, bytes=size))
        here.check()
        liar.end()


def test_a_claim_with_a_serial_that_is_refused_leaves_nothing_uncounted() -> None:
    with lies(Random(1), Random(1)) as here:
        liar = Liar(here.world, uid=USER)
        liar.attach()
        liar.reconnect(HelloFlag.RESUMED)
        liar.attach(CAPACITY + 1, serial=7)
        assert liar.refusals
        here.check()
        liar.end()
