"""Tenants that fit share a card that divides its time equally: promises hold, no time is lost."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moiety.arbiter import events as ev
from moiety.arbiter.schedule.fair_share import parts
from moiety.model.share import Share
from tests.support.divided_card import DividedCard

SECONDS = 4.0


def alone(card: DividedCard, seconds: float) -> float:
    """The part of the time in which one process holds alone."""
    found = 0
    steps = round(seconds / 0.005)
    for _ in range(steps):
        card.run(0.005)
        found += len(card.open) == 1
    return found / steps


@pytest.mark.parametrize(
    "asked", [(0.5, 0.5), (0.7, 0.3), (0.1, 0.9), (0.2, 0.3, 0.5), (0.05, 0.05, 0.9)]
)
def test_promises_hold_in_every_few_seconds(asked: tuple[float, ...]) -> None:
    card = DividedCard([Share(gpu=part) for part in asked])
    card.run(2)
    for _ in range(5):
        assert card.parts(SECONDS) == pytest.approx(asked, abs=0.03)
    assert card.unused_s < 0.01
    assert card.revokes / card.now_s < 8 * len(asked)


@pytest.mark.parametrize(
    ("asked", "most"),
    [((0.5, 0.5), 0.0), ((0.7, 0.3), 0.4), ((0.2, 0.3, 0.5), 0.2), ((0.1, 0.2, 0.7), 0.5)],
)
def test_one_is_alone_only_as_far_as_promises_need(asked: tuple[float, ...], most: float) -> None:
    card = DividedCard([Share(gpu=part) for part in asked])
    card.run(2)
    assert alone(card, 10) <= most + 0.06


def test_equal_promises_need_no_windows() -> None:
    card = DividedCard([Share(gpu=0.5), Share(gpu=0.5)])
    card.run(60)
    assert card.revokes == 0


@pytest.mark.parametrize("limit", [0.1, 0.3, 0.45])
def test_a_limit_holds_beside_another(limit: float) -> None:
    card = DividedCard([Share(gpu_limit=limit), Share()])
    card.run(2)
    assert card.parts(SECONDS) == pytest.approx([limit, 1 - limit], abs=0.03)
    assert card.unused_s < 0.01


def test_a_limit_above_an_equal_part_costs_nothing() -> None:
    card = DividedCard([Share(gpu_limit=0.8), Share()])
    card.run(10)
    assert card.revokes == 0


def test_a_change_is_kept_within_two_seconds() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)])
    card.run(20)
    card.tell(ev.ShareSet(1, Share(gpu=0.1)))
    card.tell(ev.ShareSet(2, Share(gpu=0.9)))
    card.run(1)
    assert card.parts(2) == pytest.approx([0.1, 0.9], abs=0.03)


def test_who_sits_out_comes_as_soon_as_the_others_are_silent() -> None:
    card = DividedCard([Share(gpu=0.9), Share(gpu=0.1)])
    card.run(2)
    for _ in range(20):
        card.nap(1, 0.1)
        card.run(0.2)
    assert card.unused_s < 20 * 0.008


def test_a_process_that_never_says_it_is_silent_harms_only_itself() -> None:
    card = DividedCard([Share(gpu=0.5), Share(gpu=0.2), Share(gpu=0.3)])
    card.never_idle.add(1)
    card.run(1)
    before = dict(card.used_s)
    for _ in range(100):
        card.nap(1, 0.05)
        card.run(0.1)
    got = [(card.used_s[n] - before[n]) / 10 for n in (1, 2, 3)]
    assert got[1] >= 0.2 - 0.03
    assert got[2] >= 0.3 - 0.03


def test_a_process_that_says_it_is_always_silent_gains_nothing() -> None:
    card = DividedCard([Share(gpu=0.7), Share(gpu=0.3)])
    card.always_idle.add(2)
    card.run(1)
    got = card.parts(10)
    assert got[0] >= 0.7 - 0.03


def test_promises_keep_turns_where_not_all_fit() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)], bytes_each=60 << 30)
    card.run(60)
    assert len(card.open) <= 1
    assert card.over(600) == pytest.approx([0.3, 0.7], abs=0.03)


def test_no_lag_of_turns_is_left_once_all_fit() -> None:
    card = DividedCard([Share(gpu=0.3), Share(gpu=0.7)], bytes_each=50 << 30)
    card.run(61)
    card.tell(ev.Free(1, 0, 40 << 30, 0))
    card.run(2)
    assert card.parts(2) == pytest.approx([0.3, 0.7], abs=0.03)


@st.composite
def promises(draw: st.DrawFn) -> list[Share]:
    found, left = [], 100
    for _ in range(draw(st.integers(2, 5))):
        asked = draw(st.integers(5, 60))
        gpu = asked / 100 if asked <= left and draw(st.booleans()) else None
        left -= asked if gpu else 0
        limit = draw(st.sampled_from([1.0, 1.0, 1.0, 0.6]))
        found.append(Share(gpu=gpu, gpu_limit=limit))
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(promises())
def test_promises_and_limits_hold_whatever_is_asked(shares: list[Share]) -> None:
    card = DividedCard(shares)
    card.run(3)
    lost_s = card.unused_s
    got = card.parts(6)
    for share, part in zip(shares, got, strict=True):
        assert (share.gpu or 0.0) - 0.03 <= part <= share.gpu_limit + 0.03
        assert part > 0.003
    if sum(share.gpu_limit for share in shares) > 1.01:
        assert got == pytest.approx(parts(shares), abs=0.03)
        assert card.unused_s - lost_s <= 0.05 * 6
