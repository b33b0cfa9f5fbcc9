"""Which shares make sense, whoever sends them."""

from __future__ import annotations

import dataclasses

import pytest

from moiety.model.errors import InvalidFraction, InvalidSize, KeptManaged, LimitAboveGpu
from moiety.model.share import Mode, Share


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


def test_a_limit_is_what_is_smaller_of_an_amount_and_a_part() -> None:
    share = Share(memory_limit_bytes=60, memory_limit_part=0.5)
    assert [share.limit_bytes(capacity) for capacity in (100, 200)] == [50, 60]
    assert Share().limit_bytes(100) == 100
    assert Share().asked_limit_bytes(100) is None


def test_only_managed_mode_has_more_than_a_gpu() -> None:
    assert Share(memory_limit_bytes=150).limit_bytes(100) == 100
    assert Share(memory_limit_bytes=150, mode=Mode.MANAGED).limit_bytes(100) == 150
    assert Share(memory_limit_part=1.5, mode=Mode.MANAGED).limit_bytes(100) == 150
    with pytest.raises(LimitAboveGpu, match="150 %"):
        Share(memory_limit_part=1.5)
    with pytest.raises(LimitAboveGpu):
        dataclasses.replace(Share(memory_limit_part=1.5, mode=Mode.MANAGED), mode=Mode.SWAP)
    with pytest.raises(KeptManaged):
        Share(memory_limit_part=1.5, mode=Mode.MANAGED, memory_bytes=1)


@pytest.mark.parametrize("part", [0.0, -0.5, 101.0, float("nan")])
def test_a_part_that_is_no_limit_is_refused(part: float) -> None:
    with pytest.raises(InvalidSize):
        Share(memory_limit_part=part, mode=Mode.MANAGED)
