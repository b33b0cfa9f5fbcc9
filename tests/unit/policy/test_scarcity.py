from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from moiety.policy.model.cluster import GpuDevice, Node, gpus
from moiety.policy.model.workloads import Shape
from moiety.policy.place import workload_mix
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.place.scarcity import scarcity
from moiety.policy.place.workload_mix import typical

SMALL = Node("s", 32_000, 65_536, gpus(4), "T4", 16_384)
USUAL = Shape(1000, 1024, 1, 1000)


def scarce(nodes: list[Node], coming: list[Shape]) -> list[float]:
    named = [replace(node, name=f"{node.name}{at}") for at, node in enumerate(nodes)]
    return [round(float(value), 6) for value in scarcity(NodeArrays(named), typical(coming))]


def test_what_suits_every_node_makes_none_scarce() -> None:
    assert scarce([SMALL] * 3, [USUAL, Shape(32_000, 65_536, 4, 1000)]) == [0, 0, 0]


def test_a_model_is_as_scarce_as_it_is_asked_for_by_name() -> None:
    """Half of all demand names a model of which a quarter of all GPUs is."""
    nodes = [SMALL, SMALL, SMALL, replace(SMALL, model="A100")]
    picky = replace(USUAL, models=frozenset({"A100"}))
    assert scarce(nodes, [USUAL, picky]) == [0, 0, 0, 2]


@pytest.mark.parametrize(
    ("large", "needs"),
    [
        (replace(SMALL, cpu_milli=64_000), replace(USUAL, cpu_milli=40_000)),
        (replace(SMALL, memory_mib=131_072), replace(USUAL, memory_mib=65_537)),
        (replace(SMALL, gpu_memory_mib=81_920), replace(USUAL, gpu_memory_mib=40_960)),
    ],
    ids=["CPUs", "memory", "memory of a GPU"],
)
def test_a_large_node_is_as_scarce_as_tasks_need_its_size(large: Node, needs: Shape) -> None:
    """Half of all demand needs a quarter of all GPUs, and the other half goes everywhere."""
    assert scarce([SMALL, SMALL, SMALL, large], [USUAL, needs]) == [0, 0, 0, 2 + 0.5 - 1]


def test_a_node_with_many_gpus_is_scarce_where_tasks_need_many() -> None:
    many = replace(SMALL, gpus=gpus(12))
    assert scarce([SMALL] * 3 + [many], [replace(USUAL, gpus=8), *[USUAL] * 8]) == [0, 0, 0, 0.5]


def test_gpus_that_are_not_healthy_count_neither_as_supply_nor_as_size() -> None:
    broken = tuple(GpuDevice(at, is_healthy=at > 0) for at in range(4))
    nodes = [replace(SMALL, gpus=broken), SMALL]
    assert scarce(nodes, [replace(USUAL, gpus=4)]) == [0, 0.75]  # 7/4 of an even demand


def test_tasks_that_no_node_can_take_make_none_scarce() -> None:
    assert scarce([SMALL] * 2, [USUAL, replace(USUAL, models=frozenset({"H100"}))]) == [0, 0]


@pytest.mark.parametrize("nodes", [[], [SMALL], [replace(SMALL, gpus=(), model="")]])
@pytest.mark.parametrize("coming", [[], [Shape(1000)], [USUAL]])
def test_without_demand_or_supply_nothing_is_scarce(nodes: list[Node], coming: list[Shape]) -> None:
    assert scarce(nodes, coming) == [0] * len(nodes)


def test_of_more_kinds_of_demand_than_are_kept_the_rest_counts_by_its_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload_mix, "DEMANDS_MAX", 1)
    large = replace(SMALL, cpu_milli=64_000, model="A100")
    rare = replace(USUAL, cpu_milli=40_000, models=frozenset({"A100"}))
    found = scarce([SMALL, large], [USUAL, USUAL, USUAL, rare])
    assert found == [0, 0.5]
    whole = typical([USUAL, USUAL, rare])
    assert sum(amount for _, amount in whole.demand) == 3000


def test_the_order_of_nodes_and_tasks_changes_nothing() -> None:
    nodes = [SMALL, replace(SMALL, cpu_milli=64_000), replace(SMALL, model="A100")]
    named = [replace(node, name=f"n{at}") for at, node in enumerate(nodes)]
    coming = [USUAL, replace(USUAL, cpu_milli=40_000), replace(USUAL, models=frozenset({"A100"}))]
    one = scarcity(NodeArrays(named), typical(coming * 3))
    other = scarcity(NodeArrays(named[::-1]), typical(coming[::-1] * 3))
    assert np.array_equal(one, other[::-1])
