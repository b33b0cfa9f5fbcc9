from __future__ import annotations

import pytest

from moiety.model.format import format_bytes, format_duration, format_fraction, plain


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), ((1 << 30) - 1, "1 GiB"), (-2048, "-2 KiB")],
)
def test_bytes_are_written_in_the_largest_fitting_unit(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (2e-6, "2 us"), (0.35, "350 ms"), (200, "3 min 20 s"), (90000, "1 d 1 h")],
)
def test_a_duration_is_written_in_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_part_is_written_as_percent() -> None:
    assert format_fraction(0.333) == "33.3 %"


def test_what_controls_a_terminal_is_taken_out_of_a_text() -> None:
    assert plain("train\x1b[2J\n") == "train?[2J?"
    assert plain("Übung 7") == "Übung 7"
