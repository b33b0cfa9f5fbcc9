"""What past answers about begins make of the next one."""

from __future__ import annotations

import random

import pytest

from moiety.policy.estimate.start_errors import LEAST, StartErrors


def told_and_came(pairs: list[tuple[float, float]]) -> StartErrors:
    errors = StartErrors()
    for at, (foreseen_s, real_s) in enumerate(pairs):
        errors.told(f"w{at}", 0.0, foreseen_s)
        errors.began(f"w{at}", real_s)
    return errors


def test_few_answers_teach_nothing() -> None:
    assert told_and_came([(600.0, 700.0)] * (LEAST - 1)).corrected(600.0, 1e4) is None


def test_what_always_took_twice_as_long_is_expected_to_do_so_again() -> None:
    errors = told_and_came([(float(s), 2.0 * s + 60.0) for s in range(600, 660)])
    found = errors.corrected(630.0, 1e5)
    assert found is not None
    assert found.expected_s == pytest.approx(1320.0, abs=1)
    assert (found.earliest_s, found.latest_s) == (1260, 1320)  # the whole minutes around it


def test_four_of_five_begins_lie_between_the_bounds() -> None:
    random_ = random.Random(4)

    def case() -> tuple[float, float]:
        foreseen_s = random_.uniform(600, 6000)
        return foreseen_s, foreseen_s * random_.lognormvariate(0.3, 0.8)

    errors = told_and_came([case() for _ in range(400)])
    held = 0
    for _ in range(500):
        foreseen_s, real_s = case()
        found = errors.corrected(foreseen_s, 1e6)
        assert found is not None
        held += found.earliest_s <= real_s <= found.latest_s
    assert 0.75 <= held / 500 <= 0.85


def test_work_that_still_waits_makes_the_latest_begin_later() -> None:
    errors = told_and_came([(600.0, 600.0 + at) for at in range(40)])
    before = errors.corrected(600.0, 10_000.0)
    for at in range(20):
        errors.told(f"late{at}", 0.0, 600.0)
    after = errors.corrected(600.0, 10_000.0)
    assert before is not None
    assert after is not None
    assert before.latest_s <= 660.0
    assert after.latest_s > before.latest_s


def test_what_is_dumped_answers_as_before() -> None:
    errors = told_and_came([(float(s), 1.5 * s) for s in range(600, 660)])
    errors.told("waits", 5.0, 900.0)
    again = StartErrors.load(errors.dump())
    assert again.corrected(700.0, 1e4) == errors.corrected(700.0, 1e4)


def test_work_that_is_gone_is_no_error() -> None:
    errors = StartErrors()
    errors.told("w", 0.0, 60.0)
    errors.forget("w")
    errors.began("w", 10.0)
    assert not errors.dump()["came"]


def within(errors: StartErrors) -> float:
    """How much later than the earliest begin the latest one is said to be."""
    found = errors.corrected(600.0, 1e6)
    assert found is not None
    return found.latest_s - found.earliest_s


@pytest.mark.parametrize(("real_s", "is_wider"), [(1e5, True), (900.0, False)])
def test_begins_outside_the_bounds_widen_the_next_ones_and_begins_within_narrow_them(
    real_s: float, is_wider: bool
) -> None:
    """The ratios that the bounds are taken from are the same in both."""
    past = [(600.0, 600.0 + 10.0 * at) for at in range(200)]
    usual = StartErrors.load({**told_and_came(past).dump(), "outside": 0.2})
    moved = StartErrors.load(usual.dump())
    for at in range(100):
        moved.told(f"more{at}", 0.0, 600.0)
        moved.began(f"more{at}", real_s)
    moved = StartErrors.load({**usual.dump(), "outside": moved.dump()["outside"]})
    assert (within(moved) > within(usual)) is is_wider
    assert (within(moved) < within(usual)) is not is_wider


def test_what_an_earlier_version_dumped_is_read() -> None:
    came = [(6.0, 7.0)] * LEAST
    errors = StartErrors.load({"came": came, "waits": {"w": (5.0, 900.0)}})
    errors.began("w", 1000.0)
    assert len(errors.dump()["came"]) == LEAST + 1
    assert errors.corrected(600.0, 1e4) is not None
