from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.policy.model.queues import DAY_S, Amounts, Queue, Window
from moiety.policy.queue.fairness import Claim, decayed, divide, weights_by_use
from moiety.policy.queue.queue_usage import QueueUsage

claims = st.lists(
    st.builds(
        Claim,
        st.integers(0, 9000),
        st.one_of(st.none(), st.integers(0, 6000)),
        st.sampled_from((0.0, 1.0, 2.0, 5.0)),
        st.integers(0, 2),
        st.tuples(st.just(0.0), st.text("abc", max_size=3)),
    ),
    max_size=6,
)


def test_quota_comes_before_surplus() -> None:
    greedy, modest = Claim(9000, 1000, 10.0, 5), Claim(3000, 3000, 0.0)
    assert divide(4000, [greedy, modest]) == [1000, 3000]


def test_surplus_goes_by_priority_and_then_by_weight() -> None:
    first, heavy, light = Claim(2000, 0, 1, 1), Claim(9000, 0, 3), Claim(9000, 0, 1)
    assert divide(6000, [light, first, heavy]) == [1000, 2000, 3000]


def test_whole_units_go_to_the_largest_remainder() -> None:
    """2 GPUs by 4 : 2 are 1.33 and 0.67: one each, because 0.67 is nearer to a whole one."""
    assert divide(8000, [Claim(7000, 4000, 4), Claim(3000, 2000, 2)], 1000) == [5000, 3000]


def test_what_one_does_not_want_goes_to_the_others() -> None:
    assert divide(9000, [Claim(1000, 0, 9), Claim(9000, 0, 1), Claim(9000, 0, 1)], 1000) == [
        1000,
        4000,
        4000,
    ]


def test_without_weight_there_is_no_surplus() -> None:
    assert divide(5000, [Claim(5000, 1000, 0.0)], 1000) == [1000]


@given(claims, st.integers(0, 20000), st.sampled_from((1, 1000)))
def test_nothing_is_given_twice_or_unasked(some: list[Claim], total: int, unit: int) -> None:
    given_ = divide(total, some, unit)
    guaranteed = [
        claim.wanted if claim.quota is None else min(claim.quota, claim.wanted) for claim in some
    ]
    for amount, claim, least in zip(given_, some, guaranteed, strict=True):
        assert least <= amount <= claim.wanted
    assert sum(given_) <= max(total, sum(guaranteed))
    if sum(given_) < total:  # whatever is left, nobody with a weight still wants
        assert all(
            amount == claim.wanted or claim.weight == 0
            for amount, claim in zip(given_, some, strict=True)
        )


def test_who_used_more_of_late_weighs_less() -> None:
    weights = weights_by_use({"a": 1, "b": 1}, {"a": 3000, "b": 1000})
    assert weights == {"a": 0.25, "b": 0.75}
    assert weights_by_use({"a": 1, "b": 3}, {}) == {"a": 1, "b": 3}


def test_use_counts_half_after_a_half_life() -> None:
    assert decayed(4000, 0, 3600, 3600) == 2000
    assert decayed(0, 4000, 7200, 3600) == 3000


def test_use_moves_the_fair_share() -> None:
    queues = [Queue("a"), Queue("b")]
    standing = QueueUsage(queues)
    asked = {"a": (8000, 0, 0, 0), "b": (8000, 0, 0, 0)}
    standing.share_out((8000, 0, 0, 0), asked)
    assert standing.fair["a"][0] == standing.fair["b"][0] == 4000
    standing.share_out((8000, 0, 0, 0), asked, {"a": 3000, "b": 1000})
    assert (standing.fair["a"][0], standing.fair["b"][0]) == (2000, 6000)


@pytest.mark.parametrize(
    ("day", "hour", "milli"), [(0, 9, 8000), (0, 20, 1000), (5, 9, 1000), (6, 0, 1000)]
)
def test_quotas_by_the_time_of_day(day: int, hour: int, milli: int) -> None:
    office = Window(8 * 3600, 18 * 3600, Amounts(gpu_milli=8000), frozenset(range(5)))
    queue = Queue("q", quota=Amounts(gpu_milli=1000), windows=(office,))
    assert queue.quota_at(day * DAY_S + hour * 3600).gpu_milli == milli


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_began() -> None:
    friday = Window(22 * 3600, 6 * 3600, Amounts(gpu_milli=8000), frozenset({4}))
    queue = Queue("q", windows=(friday,))
    assert queue.quota_at(5 * DAY_S + 3600).gpu_milli == 8000
    assert queue.quota_at(4 * DAY_S + 3600).gpu_milli == 0


def test_a_queue_shares_what_its_parent_has() -> None:
    queues = [
        Queue("d1", quota=Amounts(gpu_milli=4000)),
        Queue("d2", quota=Amounts(gpu_milli=2000)),
        Queue("a", "d1"),
        Queue("b", "d1", weight=3),
        Queue("c", "d2"),
    ]
    standing = QueueUsage(queues)
    asked = dict.fromkeys("abc", (9000, 0, 0, 0))
    standing.share_out((6000, 0, 0, 0), asked)
    assert [standing.fair[name][0] for name in "abc"] == [1000, 3000, 2000]
