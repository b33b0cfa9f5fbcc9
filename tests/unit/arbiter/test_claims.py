"""What a process says to have: counted as far as it is proven, else decided like a request."""

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
    arbiter: Arbiter,
    amount: int,
    *,
    unproven: bool = False,
    limit: int = CAPACITY,
    number: int = 1,
    pinned: int = 0,
    proven: tuple[int, int] | None = None,
) -> list[str]:
    """A process says that it has so much; why it is refused. `proven`: bytes, and pinned ones."""
    hello = ev.Hello(number, resumed=True, uid=1, unproven=unproven)
    handle(arbiter, 0.0, hello)
    bytes_, pins = proven or (None, None)
    attach = ev.Attach(
        number,
        0,
        0,
        1,
        limit,
        amount,
        amount,
        pinned,
        exists=True,
        proven_bytes=bytes_,
        proven_pinned_bytes=pins,
    )
    told = handle(arbiter, 0.0, attach)
    arbiter.check()
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


def counted(arbiter: Arbiter) -> dict[int, tuple[int, int] | None]:
    """By process: the bytes that count for it, and the pinned ones."""
    return {view.tenant: arbiter.has_bytes(view.tenant, 0) for view in arbiter.tenants()}


@pytest.mark.parametrize("recorded", [0, 30])
def test_a_recorded_process_says_no_more_than_was_recorded(arbiter: Arbiter, recorded: int) -> None:
    (text,) = claim(arbiter, 140, pinned=140, proven=(recorded, 0))
    assert "alice may have" in text
    assert counted(arbiter) == {1: (recorded, 0)}, "what it has is not given away"
    assert arbiter.gpus()[0].residue_bytes == 1
    assert not claim(arbiter, 60, proven=(60, 0)), "the driver confirms it, say"


def test_what_is_not_recorded_is_decided_like_a_request(arbiter: Arbiter) -> None:
    assert not claim(arbiter, 45, proven=(20, 0))
    assert counted(arbiter) == {1: (45, 0)}
    (text,) = claim(arbiter, 6, number=2, proven=(2, 0))
    assert "the 4 B that it says to have" in text
    assert counted(arbiter) == {1: (45, 0), 2: (2, 0)}


def test_pins_that_are_not_recorded_shut_nobody_out(arbiter: Arbiter) -> None:
    handle(arbiter, 0.0, ev.Hello(2))
    handle(arbiter, 0.0, ev.Attach(2, 0, 1, 1, CAPACITY))
    handle(arbiter, 0.0, ev.AllocRequest(2, 0, 2, 170))
    assert not claim(arbiter, 50, pinned=30, proven=(50, 30)), "recorded"
    (text,) = claim(arbiter, 50, pinned=50, proven=(50, 30))
    assert "shut out tenant 2" in text
    assert counted(arbiter)[1] == (50, 30)
    assert not claim(arbiter, 50, pinned=29, proven=(50, 0)), "it shuts nobody out"
    assert counted(arbiter)[1] == (50, 29)


@pytest.mark.parametrize("pinned", [0, 190])
def test_what_is_not_recorded_waits_for_those_who_are(pinned: int) -> None:
    arbiter = Arbiter([GpuSpec(0, TOTAL, CAPACITY)], Settings(arena_bytes=1000), settled=False)
    assert not claim(arbiter, 190, pinned=pinned, proven=(10, 0))
    assert counted(arbiter) == {1: (10, 0)}
    assert not claim(arbiter, 150, proven=(150, 0), number=2)
    told = handle(arbiter, 0.0, ev.Settled())
    refused = [each.tenant for each in told if isinstance(each, do.Refused)]
    assert refused == [1] * bool(pinned)
    assert counted(arbiter) == {1: (10 if pinned else 190, 0), 2: (150, 0)}
