from __future__ import annotations

import pytest

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.sim.case_time import history, monday_s, windows
from moiety.sim.case_values import BadCase

HOUR_S = 3600


def test_a_window_has_its_hours_and_its_quota() -> None:
    row = {"windows": [{"days": "mon-fri", "from": "20:00", "until": "08:00", "quota_gpus": 12}]}
    (window,) = windows(row, "queues[0]")
    assert (window.from_s, window.until_s) == (20 * HOUR_S, 8 * HOUR_S)
    assert window.quota.gpu_milli == 12 * WHOLE_GPU
    assert windows({}, "queues[0]") == ()


def test_a_window_that_makes_no_sense_is_refused_with_its_place() -> None:
    row = {"windows": [{"from": "20:00", "until": "26:00", "quota_gpus": 1}]}
    with pytest.raises(BadCase) as refused:
        windows(row, "queues[0]")
    assert refused.value.key == "queues[0].windows[0]"


def test_now_says_when_the_week_began() -> None:
    assert monday_s({}, 5.0) == 0.0
    assert monday_s({"now": "tue 21:30"}, 0.0) == -(24 + 21.5) * HOUR_S


def test_jobs_that_have_ended_are_a_history() -> None:
    row = {"name": "a", "queue": "q", "gpus": 0.5, "ran_s": 60}
    (ran,) = history({"history": [row]})
    assert (ran.name, ran.queue, ran.user, ran.run_s) == ("a", "q", "", 60)
    assert ran.gpu_milli == WHOLE_GPU // 2
    with pytest.raises(BadCase, match="not a list"):
        history({"history": row})
