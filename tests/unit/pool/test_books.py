"""The books of a pool: nothing is given out twice."""

from __future__ import annotations

import pytest

from moiety.pool.engine.books import GpuBooks
from moiety.pool.engine.messages import CardView
from moiety.pool.model.states import WorkState
from tests.unit.pool.test_snapshot import row, running

CARDS = [CardView(index=i, model="A", memory_mib=1000) for i in range(2)]


def test_time_and_memory_of_a_gpu_are_promised_once() -> None:
    books = GpuBooks(CARDS, [running(1, 0, gpu_milli=600)], 9000)
    assert not books.take(row(2), [0], 500)
    assert books.take(row(2, gpu_memory_mib=900), [0], 400)
    assert not books.take(row(3, gpu_memory_mib=200), [0], 0)
    assert books.take(row(3, gpu_memory_mib=200), [1], 1000)


@pytest.mark.parametrize("state", [WorkState.SUSPENDED, WorkState.ENDING, WorkState.RUNNING])
def test_work_that_has_an_attempt_counts_until_that_is_over(state: WorkState) -> None:
    books = GpuBooks(CARDS, [running(1, 0, 1, state=state)])
    assert books.limits_mib == books.holds_mib == 2000
    assert books.beyond_limits(row(2, memory_limit_mib=1), [0])


@pytest.mark.parametrize(
    ("asked", "limit_mib"),
    [
        ({"gpu_milli": 250}, 250),
        ({"gpu_milli": 0, "gpu_memory_mib": 100}, 100),
        ({"gpu_milli": 500, "gpu_memory_mib": 100, "memory_limit_mib": 700}, 700),
        ({"opportunistic": True}, 1000),
        ({"opportunistic": True, "memory_limit_mib": 10}, 10),
    ],
)
def test_what_counts_as_a_limit(asked: dict[str, int], limit_mib: int) -> None:
    assert GpuBooks(CARDS, [running(1, 1, **asked)]).limits_mib == limit_mib


def test_opportunistic_work_starts_only_where_its_memory_finds_a_place() -> None:
    full = [running(1, 0), running(2, 1)]
    assert not GpuBooks(CARDS, full).take(row(3, opportunistic=True), [0], 1000)
    assert GpuBooks(CARDS, full, 1000).take(row(3, opportunistic=True), [0], 1000)


def test_processes_of_others_count() -> None:
    used = [CardView(index=0, model="A", memory_mib=1000, outside_mib=300, outside_milli=100)]
    assert not GpuBooks(used, []).take(row(1), [0], 1000)
    assert not GpuBooks(used, []).take(row(1, memory_limit_mib=701), [0], 500)
    assert GpuBooks(used, []).take(row(1, memory_limit_mib=700), [0], 500)


def test_work_without_gpus_is_in_no_book() -> None:
    assert GpuBooks([], []).take(row(1, gpus=0, gpu_milli=0), [], 0)
