"""The indices of an array, as people write them and as a table shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.model.errors import BadArgument
from moiety.pool.model.arrays import ArrayIndices, format_indices, parse_array, parse_indices


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7", ArrayIndices((7,))),
        ("0-3", ArrayIndices((0, 1, 2, 3))),
        ("0-9:3,12%2", ArrayIndices((0, 3, 6, 9, 12), 2)),
        ("3,1,3", ArrayIndices((1, 3))),
        ("0-9999", ArrayIndices(tuple(range(10000)))),
    ],
)
def test_what_is_written_is_what_there_is(text: str, found: ArrayIndices) -> None:
    assert parse_array(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "a", "1-", "-1", "3-1", "0-9:0", "1,,2", "1%0", "1%", "1%x", "1 2", "1%2%3", "²",
     "0-10000", "5000000", "0-9999,20000-29999", "0-3999999", "0-9999,0-9999,0-9999",
     "0-3%0000000019999999999999999999"],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        parse_array(text)


@given(st.sets(st.integers(0, 60), min_size=1))
def test_what_is_shown_means_the_same(indices: set[int]) -> None:
    assert parse_indices(format_indices(indices)) == tuple(sorted(indices))


def test_numbers_with_one_step_are_a_range() -> None:
    assert format_indices([4, 5, 6, 7, 8, 9]) == "4-9"
    assert format_indices([0, 3, 6, 9, 20, 22]) == "0-9:3,20,22"
    assert format_indices([1, 2, 7]) == "1-2,7"
