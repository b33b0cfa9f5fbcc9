"""Since when work waits that could not begin at once."""

from __future__ import annotations

from moiety.pool.engine.wait_times import WaitTimes


def test_time_counts_from_when_work_could_begin() -> None:
    waits = WaitTimes()
    waits.later = {"1", "2"}
    assert waits.at(10.0) == {}
    waits.later = {"2"}
    assert waits.at(20.0) == {"1": 20.0}
    assert waits.at(30.0) == {"1": 20.0, "2": 30.0}
    waits.later = {"1"}
    assert waits.at(40.0) == {"2": 30.0}


def test_work_that_comes_back_waits_from_then_on_and_what_is_over_is_forgotten() -> None:
    waits = WaitTimes()
    waits.again("1")
    assert waits.at(10.0) == {"1": 10.0}
    waits.over("1")
    assert waits.at(20.0) == {}
    waits.later = {"1"}
    waits.at(30.0)
    waits.over("1")
    assert waits.at(40.0) == {}
