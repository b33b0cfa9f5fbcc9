"""Units: which of them are a share, and which a container should get."""

from __future__ import annotations

import pytest

from moiety.devices.gpu_models import Card
from moiety.kube.resource_slices import NodeGpu
from moiety.kube.units import BadUnits, UnitName, divide, parts, prefer, unit, uuid_of

A, B, C = "GPU-a", "GPU-b", "GPU-c"


def free(uuid: str, count: int, start: int = 0) -> list[str]:
    return [unit(uuid, number) for number in range(start, start + count)]


def by_gpu(names: list[str]) -> dict[str, int]:
    return {uuid: [uuid_of(name) for name in names].count(uuid) for uuid in map(uuid_of, names)}


@pytest.mark.parametrize(
    ("units", "gpus", "part"),
    [
        (free(A, 50), [A], 0.5),
        (free(A, 1), [A], 0.01),
        (free(A, 100), [A], 1.0),
        (free(A, 75) + free(B, 75), [A, B], 0.75),
        (free(A, 100) + free(B, 100), [A, B], 1.0),
    ],
)
def test_units_are_a_share_of_as_few_gpus_as_hold_them(
    units: list[str], gpus: list[str], part: float
) -> None:
    assert parts(units, 100) == (gpus, part)


@pytest.mark.parametrize(
    "units",
    [
        [],
        free(A, 25) + free(B, 25),
        free(A, 100) + free(B, 50),
        free(A, 50) + free(B, 50) + free(C, 50),
    ],
)
def test_units_that_are_spread_otherwise_are_refused_with_what_would_do(units: list[str]) -> None:
    with pytest.raises(BadUnits) as no:
        parts(units, 100)
    assert no.value.hint


def test_the_smallest_fragment_that_is_large_enough_is_preferred() -> None:
    available = free(A, 100) + free(B, 30) + free(C, 60)
    assert by_gpu(prefer(available, [], 30, 100)) == {B: 30}
    assert by_gpu(prefer(available, [], 40, 100)) == {C: 40}
    assert by_gpu(prefer(available, [], 70, 100)) == {A: 70}


def test_whole_gpus_are_taken_for_whole_gpus() -> None:
    available = free(A, 60) + free(B, 100) + free(C, 100)
    assert by_gpu(prefer(available, [], 100, 100)) == {B: 100}
    assert by_gpu(prefer(available, [], 200, 100)) == {B: 100, C: 100}
    assert by_gpu(prefer(available, [], 120, 100)) == {A: 60, B: 60}


def test_what_must_be_taken_decides_on_the_gpu() -> None:
    available = free(A, 100) + free(B, 30)
    must = free(A, 10)
    found = prefer(available, must, 30, 100)
    assert by_gpu(found) == {A: 30}
    assert set(must) <= set(found)


def test_where_nothing_fits_as_many_as_asked_for_are_named_all_the_same() -> None:
    found = prefer(free(A, 20) + free(B, 20), [], 30, 100)
    assert len(found) == len(set(found)) == 30


def test_a_unit_is_never_taken_for_one_of_an_earlier_version() -> None:
    before = {f"{A}.{number:03}" for number in range(100)}
    assert not before & set(free(A, 100))
    assert {uuid_of(name) for name in before} == {A}


def test_a_resource_has_the_models_that_it_names_and_the_usual_one_the_rest() -> None:
    gpus = [
        NodeGpu(Card(index, f"GPU-{index}", name, 1 << 30), 1 << 30)
        for index, name in enumerate(["NVIDIA A100-SXM4-80GB", "Tesla T4", "NVIDIA H100"])
    ]
    found = divide((UnitName("moiety.dev/a100", "*a100*"), UnitName("moiety.dev/t4", "*T4*")), gpus)
    assert {name: [gpu.card.index for gpu in each] for name, each in found.items()} == {
        "moiety.dev/a100": [0],
        "moiety.dev/t4": [1],
        "moiety.dev/gpu-percent": [2],
    }
