from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.kube.model import quantity
from moiety.kube.model.quantity import InvalidQuantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("-1", -1),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("500m", Fraction(1, 2)),
        ("250u", Fraction(1, 4000)),
        ("1n", Fraction(1, 10**9)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("20Gi", 20 << 30),
        ("1.5Gi", 3 << 29),
        ("1M", 10**6),
        ("1G", 10**9),
        ("2Ei", 2 << 60),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e6", 12 * 10**6),
        ("1e-3", Fraction(1, 1000)),
        ("1.5E+2", 150),
        ("0e9999", 0),
    ],
)
def test_quantities_mean_what_kubernetes_says(text: str, value: Fraction | int) -> None:
    assert quantity.parse(text) == value


def test_what_is_finer_than_a_billionth_is_rounded_away_from_zero() -> None:
    assert quantity.parse("0.0000000001") == Fraction(1, 10**9)
    assert quantity.parse("-1e-12") == Fraction(-1, 10**9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("banana", "is not a quantity"),
        ("1 Gi", "has a space in it"),
        ("20GiB", "did you mean Gi?"),
        ("20gb", "did you mean G?"),
        ("20g", "did you mean G?"),
        ("1K", "did you mean k?"),
        ("5B", "bytes have none"),
        ("5x", "has the unit x, which Kubernetes does not know"),
        ("1e", "has the unit e"),
        ("--1", "is not a quantity"),
        ("1.2.3", "is not a quantity"),
        ("0x10", "is not a quantity"),
        ("1_000", "is not a quantity"),
        ("٣", "is not a quantity"),
        ("8Ei", "more than Kubernetes counts"),
        ("1e5000", "more, or finer, than Kubernetes counts"),
        ("NaN", "is not a quantity"),
        ("1Gi\n", "has a space in it"),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidQuantity) as caught:
        quantity.parse(text)
    assert said in caught.value.what


def test_memory_is_whole_bytes() -> None:
    assert quantity.parse_bytes("20Gi") == 20 << 30
    assert quantity.parse_bytes("1.5") == 2
    assert quantity.parse_bytes("0") == 0
    for text in ("-1", "100m"):
        with pytest.raises(InvalidQuantity):
            quantity.parse_bytes(text)


def test_counts_are_whole() -> None:
    assert quantity.parse_count("2") == 2
    assert quantity.parse_count("2000m") == 2
    for text in ("0.5", "-1"):
        with pytest.raises(InvalidQuantity):
            quantity.parse_count(text)


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_a_number_survives_being_written_and_read(billionths: int) -> None:
    value = Fraction(billionths, 10**9)
    assert quantity.parse(quantity.format_number(value)) == value


@given(st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_bytes_survive_being_written_and_read(count: int) -> None:
    assert quantity.parse_bytes(quantity.format_bytes(count)) == count


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_is_refused(text: str) -> None:
    with contextlib.suppress(InvalidQuantity):
        assert abs(quantity.parse(text)) < 1 << 63
