"""Who costs others time is named with figures, and an ordinary hand-off is nobody's fault."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.enforcement.interference import (
    Interference,
    InterferenceCost,
    NotifyOnce,
    Span,
    Stay,
    StayRing,
    both,
    joined,
    lateness,
    span,
)

A, B, C = 1, 2, 3


def told(*stays: Stay) -> Interference:
    known = Interference()
    for stay in stays:
        known.ended(stay)
    return known


def test_a_long_drain_costs_everybody_who_waited_meanwhile() -> None:
    known = told(
        Stay(A, (0,), "draining", 10.0, 12.005),
        Stay(B, (0,), "queued", 9.0, 12.0),
        Stay(C, (0,), "restoring", 11.0, 13.0),
    )
    cost = known.costs(20.0, [])[A]
    assert cost.waited_s == pytest.approx(1.995 + 1.005)
    assert (cost.times, cost.victims) == (1, frozenset({B, C}))
    assert str(cost) == (
        "cost 2 others 3 s of waiting within the last minute: it gave the GPU back late once, "
        "2 s at the longest"
    )


def test_ordinary_hand_offs_cost_nothing() -> None:
    stays = [Stay(A, (0,), "draining", n, n + 0.004) for n in range(50)]
    stays += [Stay(B, (0,), "queued", n - 0.5, n + 0.01) for n in range(50)]
    assert told(*stays).costs(55.0, []) == {}


def test_who_waits_for_another_gpu_does_not_count() -> None:
    known = told(Stay(A, (0,), "draining", 10, 12), Stay(B, (1,), "queued", 9, 12))
    assert known.costs(20.0, []) == {}


def test_waiting_for_a_busy_holder_is_no_fault() -> None:
    known = told(Stay(A, (0,), "holding", 0, 12), Stay(B, (0,), "queued", 1, 12))
    assert known.costs(20.0, []) == {}


def test_what_still_goes_on_counts() -> None:
    now = [Stay(A, (0, 1), "undrainable", 5.0, 25.0), Stay(B, (1,), "queued", 15.0, 25.0)]
    cost = Interference().costs(25.0, now)[A]
    assert cost.waited_s == pytest.approx(10.0)
    assert cost.longest_s == pytest.approx(20.0)


def test_a_drain_that_becomes_a_stop_is_one_time() -> None:
    known = told(
        Stay(A, (0,), "draining", 10.0, 10.1),
        Stay(A, (0,), "stopped", 10.1, 12.0),
        Stay(A, (0,), "draining", 14.0, 15.0),
        Stay(B, (0,), "queued", 9.0, 16.0),
    )
    cost = known.costs(20.0, [])[A]
    assert cost.times == 2
    assert cost.longest_s == pytest.approx(1.995)


def test_after_a_minute_it_is_forgotten() -> None:
    known = told(Stay(A, (0,), "stopped", 0, 10), Stay(B, (0,), "queued", 0, 10))
    assert known.costs(65.0, [])[A].waited_s == pytest.approx(5.0)
    assert known.costs(70.1, []) == {}


def test_the_last_stays_are_kept_in_memory_that_was_there_before() -> None:
    kept = StayRing(100)
    stays = [Stay(A + n % 3, (n % 4, 63 + n % 2), "queued", n, n + 1.5) for n in range(1000)]
    kept.append(stays[0])
    tracemalloc.start()
    try:
        for stay in stays[1:]:
            kept.append(stay)
        assert tracemalloc.get_traced_memory()[0] < 1000
    finally:
        tracemalloc.stop()
    assert list(kept.since(0)) == [span(stay) for stay in reversed(stays[-100:])]
    assert list(kept.since(998.5)) == [span(stays[999]), span(stays[998])]
    assert span(stays[999]) == (A, 1 << 3 | 1 << 63, 999, 1000.5)


def test_who_is_named_is_named_once_until_it_was_better() -> None:
    named = NotifyOnce()
    assert named.due({A: 4.9, B: 5.0}, 5.0) == [B]
    assert named.due({A: 6.0, B: 9.0}, 5.0) == [A]
    assert named.due({A: 3.0, B: 2.0}, 5.0) == []
    assert named.due({A: 6.0, B: 6.0}, 5.0) == [B]
    assert named.due({C: 100.0}, 0.0) == []


STATES = ["queued", "restoring", "holding", "draining", "stopped", "undrainable", "out", "fenced"]


MANY_STAYS = st.lists(
    st.builds(
        lambda tenant, gpus, state, begin, lasts: Stay(tenant, gpus, state, begin, begin + lasts),
        st.integers(1, 4),
        st.sampled_from([(0,), (1,), (0, 1)]),
        st.sampled_from(STATES),
        st.floats(0, 100),
        st.floats(0, 30),
    ),
    max_size=40,
)


@given(MANY_STAYS, st.floats(100, 200))
def test_nobody_costs_more_than_all_others_waited(stays: list[Stay], now_s: float) -> None:
    costs: dict[int, InterferenceCost] = told(*sorted(stays, key=lambda s: s.end_s)).costs(
        now_s, []
    )
    for tenant, cost in costs.items():
        waits = [s for s in stays if s.tenant != tenant and s.state in ("queued", "restoring")]
        late = [s for s in stays if s.tenant == tenant]
        most = sum((w.end_s - w.begin_s) * len(late) for w in waits)
        assert 0 < cost.waited_s <= most + 1e-6
        assert tenant not in cost.victims
        assert cost.longest_s <= 30


@given(MANY_STAYS, MANY_STAYS, st.floats(100, 200))
def test_each_cost_is_what_comparing_all_with_all_finds(
    stays: list[Stay], recent: list[Stay], now_s: float
) -> None:
    going_on = [Stay(s.tenant, s.gpus, s.state, s.begin_s, now_s) for s in recent]
    known = told(*sorted(stays, key=lambda s: s.end_s))
    since_s = now_s - 60.0
    there = [s for s in stays if s.end_s > since_s] + going_on
    waits = [s for s in there if s.state in ("queued", "restoring") and s.end_s > s.begin_s]
    found = known.costs(now_s, going_on)
    of_one = {who: cost for who, cost in found.items() if who == A}
    assert known.costs(now_s, going_on, of={A}) == of_one
    for tenant in range(1, 5):
        late = joined(span(part) for s in there if s.tenant == tenant and (part := lateness(s)))
        waited_s = 0.0
        victims: set[int] = set()
        mattered: set[Span] = set()
        for own in late:
            for wait in (s for s in waits if s.tenant != tenant and own[1] & span(s)[1]):
                both_s = min(own[3], wait.end_s) - max(own[2], wait.begin_s, since_s)
                if both_s > 0:
                    waited_s += both_s
                    victims.add(wait.tenant)
                    mattered.add(own)
        if not victims:
            assert tenant not in found
            continue
        assert found[tenant].waited_s == pytest.approx(waited_s)
        assert found[tenant].victims == frozenset(victims)
        assert found[tenant].times == len(mattered)
        assert found[tenant].longest_s == max(own[3] - own[2] for own in mattered)


def test_each_pair_is_told_once() -> None:
    turns = range(2000)
    lates = [(A, 1, turn + 0.0, turn + 0.5) for turn in turns]
    waits = [(B, 1, turn + 0.25, turn + 1.25) for turn in turns]
    assert sum(1 for _ in both(lates, waits)) == 2 * len(turns) - 1
