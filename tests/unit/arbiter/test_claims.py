"""What a process says to have: believed if an agent knew it, else decided like a request."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import handle

TOTAL, CAPACITY = 220, 200


@pytest.fixture
def arbiter() -> Arbiter:
    """One GPU; its users may have 50 bytes each."""
    made = Arbiter([GpuSpec(0, TOTAL, CAPACITY)], Settings(arena_bytes=1000))
    handle(made, 0.0, ev.UserLimitsSet({1: (50, "alice may have (/etc/f:1)")}))
    return made


def claim(
    arbiter: Arbiter, amount: int, *, unproven: bool, limit: int = CAPACITY, number: int = 1
) -> list[str]:
    """A process says that it has so much; why it is refused."""
    hello = ev.Hello(number, resumed=True, uid=1, unproven=unproven)
    handle(arbiter, 0.0, hello)
    attach = ev.Attach(number, 0, 0, 1, limit, amount, amount, exists=True)
    told = handle(arbiter, 0.0, attach)
    return [each.text for each in told if isinstance(each, do.Refused)]


def test_what_the_last_agent_recorded_is_counted_beyond_a_limit_that_became_smaller(
    arbiter: Arbiter,
) -> None:
    assert not claim(arbiter, 60, unproven=False, limit=40)
    assert arbiter.gpus()[0].allocated_bytes == 60


def test_nobody_has_more_than_there_is(arbiter: Arbiter) -> None:
    (text,) = claim(arbiter, TOTAL + 1, unproven=False)
    assert "which has 220 B" in text
    assert arbiter.gpus()[0].allocated_bytes == 0


def test_what_nobody_recorded_is_decided_like_a_request(arbiter: Arbiter) -> None:
    (text,) = claim(arbiter, 51, unproven=True)
    assert "alice may have" in text
    (text,) = claim(arbiter, 41, unproven=True, limit=40)
    assert "limit of 40 B" in text
    assert arbiter.gpus()[0].residue_bytes == 0
    assert not claim(arbiter, 40, unproven=True, limit=40)
    assert arbiter.gpus()[0].allocated_bytes == 40


def test_it_waits_until_those_are_back_that_were_recorded() -> None:
    arbiter = Arbiter([GpuSpec(0, TOTAL, CAPACITY)], Settings(arena_bytes=1000), settled=False)
    assert not claim(arbiter, CAPACITY, unproven=True)
    assert arbiter.gpus()[0].allocated_bytes == 0
    assert not claim(arbiter, CAPACITY, unproven=False, number=2)
    handle(arbiter, 0.0, ev.Settled())
    assert arbiter.gpus()[0].allocated_bytes == 2 * CAPACITY
