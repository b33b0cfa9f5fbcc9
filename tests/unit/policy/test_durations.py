"""Durations in the words of an explanation."""

from __future__ import annotations

import pytest

from moiety.policy.explain.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (40, "40 s"),
        (125, "2 min 5 s"),
        (2110, "35 min"),
        (4200, "1 h 10 min"),
        (86399, "1 d"),
        (183600, "2 d 3 h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
