from __future__ import annotations

from dataclasses import replace

import pytest

from moiety.policy.model.workloads import Shape
from moiety.policy.place import workload_mix
from moiety.policy.place.workload_mix import typical

SMALL = Shape(1000, 512, 1, 250)
LARGE = Shape(8000, 2048, 1, 1000)
PICKY = Shape(8000, 2048, 1, 1000, models=frozenset({"A", "B"}))


def test_the_most_frequent_shapes_are_kept_until_enough_tasks_are_covered() -> None:
    rare = [Shape(cpu, 0, 1, 500) for cpu in range(5)]
    found = typical([SMALL] * 60 + [LARGE] * 35 + rare)
    assert [(shape.cpu_milli, count) for shape, count in found.shapes] == [(1000, 60), (8000, 35)]
    assert [weight for _, weight in found.weighted] == [0.6 / 0.95, 0.35 / 0.95]
    assert len(typical([SMALL] * 60 + [LARGE] * 35 + rare, 96).shapes) == 3


def test_host_memory_makes_no_other_shape_but_is_counted() -> None:
    found = typical([SMALL, Shape(1000, 1024, 1, 250), Shape(4000, 99999)])
    assert [(shape.memory_mib, count) for shape, count in found.shapes] == [(0, 2), (0, 1)]
    assert found.memory_mib_per_gpu == (512 + 1024) * 1000 // 500  # of tasks with GPUs


def test_demand_is_of_all_tasks_by_what_they_need_of_a_node() -> None:
    found = typical([LARGE] * 98 + [PICKY, replace(LARGE, gpu_milli=500)])
    assert len(found.shapes) == 1
    assert found.demand == ((LARGE, 98_500), (PICKY, 1000))


def test_small_demands_beyond_the_most_that_are_kept_count_by_their_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload_mix, "DEMANDS_MAX", 2)
    found = typical([LARGE] * 9 + [PICKY] * 5 + [SMALL] * 4 + [replace(PICKY, cpu_milli=9000)])
    small = Shape(0, 0, 1, 1000)
    assert found.demand == (
        (LARGE, 9000),
        (PICKY, 5000),
        (small, 1000),
        (replace(small, models=PICKY.models), 1000),
    )


def test_what_is_written_differently_counts_apart() -> None:
    tasks = [PICKY] * 3
    assert [count for _, count in typical(tasks).shapes] == [3]
    spelled = typical(tasks, spelled=["A|B", "A|B|B", "A|B"])
    assert [count for _, count in spelled.shapes] == [2, 1]


def test_nothing_is_typical_of_nothing() -> None:
    assert typical([]).shapes == ()
    assert typical([]).weighted == []
