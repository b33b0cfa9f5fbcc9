"""What a replay says of begins, beside what comes."""

from __future__ import annotations

import pytest

from moiety.model.errors import InvalidValue
from moiety.sim.baselines import baseline
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.outcome import run_gangs
from moiety.sim.runs import RestartCost
from moiety.sim.starts import StartQuestions, StartWatch, interval_score


def burst(count: int, user: str = "u") -> GangTrace:
    """All come at once, on four GPUs: nothing that comes later changes what is foreseen."""
    gangs = tuple(
        GangJob(f"g{at}", 1 + at % 4, 0.0, 600.0 + 97.0 * (at * 7 % 11), "q", user)
        for at in range(count)
    )
    return GangTrace("t", gangs, (4,))


def test_where_nothing_else_comes_and_run_times_are_known_the_answer_is_what_comes() -> None:
    questions = StartQuestions(30, is_known=True)
    found = run_gangs(burst(30), "default", RestartCost(30.0), questions=questions).starts
    assert found is not None
    assert found.waited >= 20
    assert found.error_median == pytest.approx(0.0, abs=0.01)


def test_asking_changes_nothing_that_is_decided() -> None:
    asked = run_gangs(burst(20), "default", RestartCost(30.0), questions=StartQuestions(20))
    plain = run_gangs(burst(20), "default", RestartCost(30.0))
    assert asked.completion_s == plain.completion_s


def test_baselines_say_nothing_of_begins() -> None:
    with pytest.raises(InvalidValue, match="does not say when"):
        StartWatch(burst(2), baseline("fifo"), StartQuestions(1))


def test_the_interval_score_is_the_width_and_ten_times_what_is_missed() -> None:
    assert interval_score(10, 30, 20) == 20
    assert interval_score(10, 30, 33) == pytest.approx(20 + 30)
    assert interval_score(10, 30, 4) == pytest.approx(20 + 60)
