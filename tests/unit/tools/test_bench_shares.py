"""The seconds after which parts of a GPU's time are right, from readings of the GPU's count."""

from __future__ import annotations

import pytest

from bench.shares import STEP_S, Reading, settled_s

PIDS = (11, 12)
ASKED = (0.1, 0.9)


def readings(first: list[float]) -> list[Reading]:
    """Readings in which process 11 receives these parts of each step, and 12 the rest."""
    found: list[Reading] = [(0.0, {11: 0.0, 12: 0.0})]
    for part in first:
        now_s, us = found[-1]
        step_us = STEP_S * 1e6
        later = {11: us[11] + part * step_us, 12: us[12] + (1 - part) * step_us}
        found.append((now_s + STEP_S, later))
    return found


def test_parts_that_are_right_at_once_take_no_time() -> None:
    assert settled_s(readings([0.1] * 60), PIDS, ASKED) == 0.0


def test_parts_that_come_later_take_until_a_window_of_them_is_right() -> None:
    # Of 2 s, 0.3 s with 0.3 in place of 0.1 are 3 points: that window is the first that is right.
    found = settled_s(readings([0.3] * 15 + [0.1] * 60), PIDS, ASKED)
    assert found == pytest.approx(1.2, abs=STEP_S + 0.01)


def test_one_wrong_window_counts_also_after_right_ones() -> None:
    steps = [0.1] * 30 + [0.9] * 10 + [0.1] * 60
    assert settled_s(readings(steps), PIDS, ASKED) == pytest.approx(4.0, abs=STEP_S + 0.01)


def test_parts_that_never_are_right_take_as_long_as_was_looked() -> None:
    assert settled_s(readings([0.3] * 60), PIDS, ASKED) == pytest.approx(4.1, abs=STEP_S + 0.01)
