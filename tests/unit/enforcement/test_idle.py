"""Idle tenants are named once for each time that they fall idle."""

from __future__ import annotations

from moiety.enforcement.idle import Idleness


def test_no_new_calls_for_long_enough_is_idle() -> None:
    known = Idleness()
    for at_s in range(0, 700, 5):
        known.see(1, 10, at_s, works=False)
        known.see(2, at_s, at_s, works=False)
    assert known.for_s(1, 700) == 700
    assert known.for_s(2, 700) == 5
    assert known.due(700, 600) == [1]
    assert known.due(705, 600) == []


def test_whoever_is_inside_a_call_or_waits_is_not_idle() -> None:
    known = Idleness()
    for at_s in range(0, 700, 5):
        known.see(1, 10, at_s, works=True)
    assert known.due(700, 600) == []


def test_it_is_named_again_when_it_worked_in_between() -> None:
    known = Idleness()
    known.see(1, 10, 0, works=False)
    assert known.due(600, 600) == [1]
    known.see(1, 11, 605, works=False)
    assert known.for_s(1, 605) == 0
    assert known.due(1204, 600) == []
    assert known.due(1205, 600) == [1]


def test_nobody_is_named_where_that_is_off_or_who_is_gone() -> None:
    known = Idleness()
    known.see(1, 10, 0, works=False)
    assert known.due(1e6, 0) == []
    known.forget(1)
    assert known.due(1e6, 600) == []
    assert known.for_s(1, 1e6) == 0
