"""Numbers of jobs, as people and tools write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.slurm.show import jobids
from moiety.slurm.show.jobids import JobId


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12", JobId(12)),
        ("12_3", JobId(12, (3,))),
        ("12_[1-4,7%2]", JobId(12, (1, 2, 3, 4, 7))),
        ("12_*", JobId(12)),
        ("12.batch", JobId(12, None, "batch")),
        ("12_3.0", JobId(12, (3,), "0")),
    ],
)
def test_a_number_of_a_job_is_read(text: str, found: JobId) -> None:
    assert jobids.parse(text) == found


@pytest.mark.parametrize("text", ["", "abc", "12_", "12_[4-1]", "-1", "12;rm", "1" * 30, "12.x"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        jobids.parse(text)


def test_commas_in_brackets_divide_nothing() -> None:
    assert jobids.parse_list("1,2_[1,3],4_5") == [JobId(1), JobId(2, (1, 3)), JobId(4, (5,))]


def test_a_number_is_written_as_it_is_read() -> None:
    for text in ("12", "12_3", "12_[1-3,7]", "12.batch"):
        assert str(jobids.parse(text)) == text


@given(st.sets(st.integers(0, 300), min_size=1))
def test_indices_survive_being_written(indices: set[int]) -> None:
    assert jobids.expand(jobids.compress(indices)) == tuple(sorted(indices))
