"""Whatever processes do, in whatever order messages arrive: what must hold, holds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.support.arbiter_days import first_quarter, pass_by
from tests.support.arbiter_rules import Anything

TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=75,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


# The same by dice (tests/support/arbiter_days.py)


@pytest.mark.parametrize("first", first_quarter(range(0, 320, 20)))
def test_many_days(first: int) -> None:
    for seed in range(first, first + 20):
        day = Anything()
        for _ in pass_by(day, seed):
            day.what_is_there_fits()
            day.holders_have_every_byte()
            day.rivals_never_hold_together()
            day.who_is_suspended_has_no_turn()
            day.a_gang_holds_whole_or_not_at_all()
            day.bounds_are_as_they_should_be()
            day.the_ledger_never_says_less()
        day.teardown()


@pytest.mark.parametrize("first", first_quarter(range(0, 160, 40)))
def test_many_days_with_allowances(first: int) -> None:
    given = 0
    for seed in range(first, first + 40):
        day = Anything()
        day.compares = True
        for _ in pass_by(day, seed, allowing=True):
            day.what_is_there_fits()
            day.holders_have_every_byte()
            day.rivals_never_hold_together()
            day.who_is_suspended_has_no_turn()
            day.the_ledger_never_says_less()
            day.spare_memory_is_allowed()
            day.allowances_are_in_nobodys_way()
            given += any(t.allowed_most for t in day.known)
        day.teardown()
    assert given > 100, "hardly anybody had an allowance"


@pytest.mark.parametrize("first", first_quarter(range(1000, 1060, 30)))
def test_leases_that_are_given_at_once_are_those_of_whole_steps(first: int) -> None:
    for seed in range(first, first + 30):
        day = Anything()
        day.compares = True
        for _ in pass_by(day, seed):
            pass
        day.teardown()
