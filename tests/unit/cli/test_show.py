"""Tables, sizes and times as they are printed."""

from __future__ import annotations

import pytest

from moiety.cli.show import Size, count, seconds, size, table
from moiety.model.errors import InvalidSize


def test_text_stands_left_and_numbers_stand_right() -> None:
    found = table(["NAME", "SIZE", "WHY"], [["a", "1 GiB", ""], ["longer", "-", "because"]])
    assert found.splitlines() == [
        "NAME     SIZE  WHY",
        "a       1 GiB",
        "longer      -  because",
    ]


def test_an_empty_table_is_its_titles() -> None:
    assert table(["A", "B"], []) == "A  B"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.0002, "0 s"),
        (0.0634, "63 ms"),
        (2.04, "2 s"),
        (75, "1 min 15 s"),
    ],
)
def test_times_are_as_exact_as_a_reader_needs(amount: float | None, shown: str) -> None:
    assert seconds(amount) == shown


def test_amounts() -> None:
    assert size(None) == "-"
    assert size(3 << 30) == "3 GiB"
    assert count(1, "GPU") == "1 GPU"
    assert count(0, "GPU") == "0 GPUs"


def test_a_size_option_takes_units_and_no_nothing() -> None:
    assert Size().convert("20GiB", None, None) == 20 << 30
    assert Size().convert(5, None, None) == 5
    with pytest.raises(InvalidSize, match="no memory at all"):
        Size().convert("0", None, None)
