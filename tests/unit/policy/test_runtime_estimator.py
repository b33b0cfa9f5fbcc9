from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.policy.estimate.runtime_estimator import (
    EDGES,
    SPANS,
    RuntimeEstimator,
    next_edge,
    span_of,
)
from moiety.policy.queue.gittins_order import aged, worth, yields

HOUR = 3600.0


def past(*run_s: float, like: str = "x") -> RuntimeEstimator:
    history = RuntimeEstimator()
    for at, each in enumerate(run_s):
        history.ended(history.came(like, 60.0 * at), each)
    return history


def value(history: RuntimeEstimator, row: int, run_s: float = 0.0, gpus: int = 1) -> float:
    chances = history.chances([row])
    return float(worth(chances, [span_of(run_s)], [gpus], [True])[0])


def test_spans_follow_each_other() -> None:
    assert span_of(0) == 0
    assert span_of(59) == 0
    assert span_of(60) == 1
    assert next_edge(60) == 90
    assert span_of(1e12) == SPANS - 1
    assert next_edge(float(EDGES[-1]) - 1) == EDGES[-1]


@pytest.mark.parametrize("run_s", [float(EDGES[-1]), 1e9])
def test_work_may_run_for_longer_than_all_spans(run_s: float) -> None:
    assert next_edge(run_s) == float("inf")
    history = past(run_s, 60.0)
    assert history.left_s(0, run_s) > 0


def test_what_came_just_before_says_most() -> None:
    history = past(*[100.0] * 20, *[HOUR] * 5)
    soon = history.came("x", 60.0 * 25)
    assert HOUR / 2 < history.left_s(soon, 0.0) < 2 * HOUR
    late = history.came("x", 60.0 * 25 + 1e6)
    assert history.left_s(late, 0.0) < history.left_s(soon, 0.0)


def test_neighbours_that_still_run_make_it_longer() -> None:
    history = past(*[100.0] * 5)
    rows = [history.came("x", 400.0) for _ in range(10)]
    before = history.left_s(rows[-1], 0.0)
    for row in rows[:-1]:
        assert history.ran(row, 5 * HOUR)
        assert not history.ran(row, 5 * HOUR)
    assert history.left_s(rows[-1], 0.0) > 10 * before


def test_without_a_past_who_has_run_longer_is_worth_less() -> None:
    history = RuntimeEstimator()
    row = history.came("x", 0.0)
    values = [value(history, row, run_s) for run_s in (0.0, 600.0, HOUR, 24 * HOUR)]
    assert values == sorted(values, reverse=True)
    assert value(history, row, gpus=4) == pytest.approx(value(history, row) / 4)


def test_with_a_past_who_is_nearly_done_is_worth_more_than_who_begins() -> None:
    history = past(*[HOUR] * 40)
    row = history.came("x", 2400.0)
    assert value(history, row, float(EDGES[span_of(HOUR)])) > 2 * value(history, row)


def test_waiting_adds_and_hysteresis_holds() -> None:
    assert aged(1.0, 0.0) == 1.0
    assert aged(1.0, 86400.0) == 2.0
    assert aged(1.0, -5.0) == 1.0
    assert yields(1.0, 2.1)
    assert not yields(1.0, 2.0)


RUNS = st.lists(
    st.tuples(st.sampled_from("ab"), st.floats(0, 1e6), st.floats(0, 1e8), st.booleans()),
    min_size=1,
    max_size=90,
)


@settings(max_examples=60, deadline=None)
@given(runs=RUNS)
def test_chances_are_chances_and_what_is_left_falls_never_below_nothing(
    runs: list[tuple[str, float, float, bool]],
) -> None:
    history = RuntimeEstimator()
    rows = [history.came(like, came_s) for like, came_s, _, _ in sorted(runs, key=lambda r: r[1])]
    for row, (_, _, run_s, is_over) in zip(rows, runs, strict=True):
        if is_over:
            history.ended(row, run_s)
        else:
            history.ran(row, run_s)
    chances = history.chances(rows)
    assert ((chances >= 0) & (chances <= 0.95)).all()
    for row in rows:
        quartiles = [history.left_s(row, 100.0, part) for part in (0.25, 0.5, 0.75)]
        assert 0 <= quartiles[0] <= quartiles[1] <= quartiles[2]
        assert value(history, row) > 0
