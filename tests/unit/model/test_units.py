from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.model.errors import InvalidDuration, InvalidFraction, InvalidSize, InvalidValue
from moiety.model.units import (
    GIB,
    MIB,
    format_bytes,
    format_duration,
    format_fraction,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_memory_limit,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20GiB", 20 * GIB),
        ("512MiB", 512 * MIB),
        ("512 mib", 512 * MIB),
        ("1.5g", 3 * GIB // 2),
        ("1.5Gi", 3 * GIB // 2),
        ("2GB", 2_000_000_000),
        ("1KiB", 1024),
        ("1KB", 1000),
        ("1k", 1024),
        (".5k", 512),
        ("0.3k", 307),
        ("4096", 4096),
        ("4096B", 4096),
        ("0", 0),
        (" 1 TiB ", 1 << 40),
        ("8388607TiB", 8388607 << 40),
    ],
)
def test_a_size_is_what_it_says(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("banana", "not a size"),
        ("", "not a size"),
        ("GiB", "not a size"),
        ("1,5GiB", "not a size"),
        ("1e3", "not a size"),
        ("\u0661GiB", "not a size"),
        ("nan", "not a size"),
        ("inf", "not a size"),
        ("-1GiB", "negative"),
        ("1.5", "part of a byte"),
        ("3 bananas", "unknown unit, bananas"),
        ("8388608TiB", "more than any machine"),
        ("9" * 5000, "not a size"),
    ],
)
def test_a_size_that_cannot_be_read_says_why_and_shows_one_that_can(text: str, why: str) -> None:
    with pytest.raises(InvalidSize, match=why) as raised:
        parse_bytes(text)
    assert repr(text) in raised.value.what
    assert "20GiB" in raised.value.hint


def test_a_size_that_cannot_be_read_is_a_value_error_for_argument_parsers() -> None:
    with pytest.raises(ValueError, match="banana"):
        parse_bytes("banana")


@given(st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_plain_bytes_read_back_exactly(size: int) -> None:
    assert parse_bytes(str(size)) == size


@given(st.integers(min_value=0, max_value=1023), st.sampled_from(["", "KiB", "MiB", "GiB", "TiB"]))
def test_whole_units_read_back_exactly(number: int, unit: str) -> None:
    size = parse_bytes(f"{number}{unit}")
    assert parse_bytes(format_bytes(size)) == size


@given(st.integers(min_value=0, max_value=1 << 50))
def test_what_is_written_reads_back_to_two_decimals(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=0.006)


@given(st.integers(min_value=0, max_value=1 << 49))
def test_no_unit_is_used_where_the_next_would_do(size: int) -> None:
    assert float(format_bytes(size).split()[0]) < 1024


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (GIB - 1, "1 GiB"),
        (80 * GIB, "80 GiB"),
        (-GIB, "-1 GiB"),
    ],
)
def test_sizes_are_written_short(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("50ms", 0.05),
        ("1.5s", 1.5),
        ("2min", 120.0),
        ("2m", 120.0),
        ("1h30min", 5400.0),
        ("1h 30min", 5400.0),
        ("250us", 250e-6),
        ("0.25", 0.25),
        ("30", 30.0),
        ("0", 0.0),
    ],
)
def test_a_duration_is_what_it_says(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("soon", "not a duration"),
        ("-1s", "negative"),
        ("3 moons", "unknown unit, moons"),
        ("5 5", "lacks a unit"),
        ("30min1h", "wrong order"),
        ("1s1s", "wrong order"),
        ("inf", "not a duration"),
    ],
)
def test_a_duration_that_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidDuration, match=why) as raised:
        parse_duration(text)
    assert "50ms" in raised.value.hint


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (35e-6, "35 us"),
        (0.35, "350 ms"),
        (0.999999, "1 s"),
        (2.5, "2.5 s"),
        (59.999, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (3600, "1 h"),
        (90_000, "1 d 1 h"),
        (-2.5, "-2.5 s"),
    ],
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_written_duration_reads_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.05)


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), ("50%", 0.5), ("50 %", 0.5), ("1", 1.0)])
def test_a_fraction_is_what_it_says(text: str, value: float) -> None:
    assert parse_fraction(text) == value


@pytest.mark.parametrize(
    ("text", "why"), [("0", "nothing"), ("1.01", "more"), ("101%", "more"), ("half", "not a part")]
)
def test_a_fraction_that_is_none_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidFraction, match=why):
        parse_fraction(text)


@given(st.integers(min_value=1, max_value=10_000))
def test_a_written_fraction_reads_back(basis_points: int) -> None:
    value = basis_points / 10_000
    assert parse_fraction(format_fraction(value)) == pytest.approx(value)


@given(st.text())
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for parse in (parse_bytes, parse_duration, parse_fraction):
        with suppress(InvalidValue):
            assert parse(text) >= 0


@pytest.mark.parametrize(
    ("text", "size", "part"),
    [("150%", None, 1.5), ("50 %", None, 0.5), ("12.5%", None, 0.125), ("20GiB", 20 << 30, None)],
)
def test_a_limit_is_an_amount_or_a_part(text: str, size: int | None, part: float | None) -> None:
    assert parse_memory_limit(text) == (size, part)


@pytest.mark.parametrize("text", ["0", "0%", "10001%", "-5%", "banana", "1.5", "%"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(InvalidSize):
        parse_memory_limit(text)
