"""Which shares make sense, whoever sends them."""

from __future__ import annotations

import pytest

from moiety.model.errors import InvalidFraction, InvalidSize
from moiety.model.share import Share


@pytest.mark.parametrize("part", [-0.5, 0.0, 1.5])
def test_a_part_is_of_one_gpu(part: float) -> None:
    with pytest.raises(InvalidFraction):
        Share(gpu=part)
    with pytest.raises(InvalidFraction):
        Share(gpu_limit=part)


def test_no_memory_is_less_than_none() -> None:
    with pytest.raises(InvalidSize):
        Share(memory_bytes=-1)
    with pytest.raises(InvalidSize):
        Share(memory_limit_bytes=-1)


def test_the_least_and_the_most_are_shares() -> None:
    assert Share(gpu=1.0, gpu_limit=1.0, memory_bytes=0).among(3).gpu == pytest.approx(1 / 3)
