"""Signals before the time limit, as people write them."""

from __future__ import annotations

import signal

import pytest

from moiety.model.errors import BadArgument
from moiety.pool.model.signals import LimitWarning, parse_warning


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("USR1", LimitWarning(signal.SIGUSR1, 60.0)),
        ("SIGUSR1@120", LimitWarning(signal.SIGUSR1, 120.0)),
        ("B:term@5", LimitWarning(signal.SIGTERM, 5.0, True)),
        ("10@0", LimitWarning(10, 0.0)),
    ],
)
def test_a_warning_is_a_signal_and_a_time(text: str, found: LimitWarning) -> None:
    assert parse_warning(text) == found


@pytest.mark.parametrize("text", ["", "NOPE", "0", "99", "USR1@", "USR1@x", "R:USR1", "@60"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        parse_warning(text)
