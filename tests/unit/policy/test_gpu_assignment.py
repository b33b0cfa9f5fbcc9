from __future__ import annotations

import numpy as np
import pytest

from moiety.policy.model.cluster import Choosing, GpuDevice, Link, Node, gpus
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import NodeArrays
from moiety.policy.place.gpu_assignment import choose
from moiety.policy.place.placer import Placer

WHOLE = 1000


def linked(count: int, pairs: dict[tuple[int, int], float]) -> Node:
    """A node whose pairs of GPUs have these speeds; each link is told by one end only."""
    links: dict[int, list[Link]] = {at: [] for at in range(count)}
    for (one, other), gbps in pairs.items():
        links[one].append(Link(other, "nvlink", gbps))
    devices = tuple(GpuDevice(at, tuple(links[at])) for at in range(count))
    return Node("n", 64000, 1024, devices, "V100")


def chosen(node: Node, count: int, free: set[int] | None = None) -> tuple[int, ...]:
    left = [WHOLE * (free is None or at in free) for at in range(len(node.gpus))]
    random = np.random.default_rng(0)
    return choose(node, left, count, WHOLE, Choosing.RULE, random)


TWO_ISLANDS = linked(4, {(0, 2): 100, (1, 3): 100, (0, 1): 25, (2, 3): 25})


def test_several_gpus_are_those_with_the_fastest_links() -> None:
    assert chosen(TWO_ISLANDS, 2) == (0, 2)
    assert chosen(TWO_ISLANDS, 2, {0, 1, 3}) == (1, 3)
    assert chosen(TWO_ISLANDS, 2, {0, 3, 1}) == (1, 3)


def test_what_is_left_is_as_well_linked_as_can_be() -> None:
    ring = linked(4, {(0, 2): 50, (2, 1): 50, (1, 3): 50, (3, 0): 50})
    assert chosen(ring, 2) == (0, 2)
    tail = linked(5, {(0, 1): 50, (1, 2): 50, (3, 4): 50})
    assert chosen(tail, 2) == (3, 4)  # leaves three in a row; (0, 1) would leave a pair


def test_large_nodes_grow_a_set() -> None:
    node = linked(16, {(at, at + 8): 100.0 for at in range(8)} | {(8, 9): 60, (0, 1): 10})
    found = chosen(node, 8)
    assert len(set(found)) == 8
    assert {0, 8} <= set(found)


def parts(busy: list[float], pairs: dict[tuple[int, int], float], count: int) -> tuple[int, ...]:
    """The GPUs for a program that has parts of several; they are so busy, and so linked."""
    bare = linked(len(busy), pairs)
    devices = tuple(GpuDevice(gpu.index, gpu.links, busy[gpu.index]) for gpu in bare.gpus)
    node = Node("n", 64000, 1024, devices, "A100")
    left = [WHOLE] * len(busy)
    return choose(node, left, count, 1, Choosing.LEAST_BUSY)


def test_parts_of_several_gpus_are_of_linked_ones_that_are_not_busy() -> None:
    pairs = {(0, 1): 50.0, (2, 3): 50.0}
    assert parts([0.0] * 4, pairs, 2) == (0, 1)
    assert parts([0.3, 0.2, 0.1, 0.2], pairs, 2) == (2, 3), "equally linked: the less busy pair"
    assert parts([0.3, 0.3, 0.0, 0.9], pairs, 2) == (0, 1), "GPU 3 is busy"
    assert parts([0.9, 0.0, 0.0, 0.9], pairs, 2) == (1, 2), "a busy GPU is worse than no link"
    assert parts([0.9, 0.0, 0.0, 0.9], pairs, 1) == (1,)


def test_parts_of_large_nodes_grow_a_set_of_linked_ones() -> None:
    pairs = {(at, at + 8): 100.0 for at in range(8)} | {(0, 1): 10.0}
    found = parts([0.9, 0.0, 0.0, 0.0, 0.0, *[0.9] * 3] * 2, pairs, 8)
    assert found == (1, 2, 3, 4, 9, 10, 11, 12)


def test_without_links_the_first_are_taken() -> None:
    node = Node("n", 64000, 1024, gpus(4), "T4")
    assert chosen(node, 2, {1, 2, 3}) == (1, 2)


@pytest.mark.parametrize("choosing", list(Choosing))
def test_a_gpu_that_is_full_is_never_chosen(choosing: Choosing) -> None:
    random = np.random.default_rng(1)
    for count in (1, 2, 3):
        found = choose(TWO_ISLANDS, [400, 399, 1000, 600], count, 400, choosing, random)
        assert len(set(found)) == count
        assert 1 not in found


def test_the_placer_uses_links() -> None:
    placer = Placer(NodeArrays([TWO_ISLANDS]))
    seat = placer.find(Shape(0, 0, 2, WHOLE))
    assert seat is not None
    assert seat.gpus == (0, 2)
