"""Small cases, each made by hand so that only one answer is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from moiety.model.errors import InternalError, InvalidValue
from moiety.policy.model.cluster import Choosing, GpuDevice, Node, Placing, gpus
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Mask, NodeArrays, Seat
from moiety.policy.place.placer import ROWS_MIN, Placer
from moiety.policy.place.workload_mix import WorkloadMix, typical

HALF = Shape(1000, 1024, 1, 500)
WHOLE = Shape(1000, 1024, 1, 1000)
CPU_ONLY = Shape(4000, 1024)
EVERY_RULE = list(Placing)


def node(name: str, count: int = 2, model: str = "T4", cpu: int = 64000) -> Node:
    return Node(name, cpu, 65536, gpus(count), model if count else "")


def placer(nodes: Sequence[Node], placing: Placing = Placing.DEFAULT, **more: object) -> Placer:
    more.setdefault("typical", typical([HALF, WHOLE, WHOLE, CPU_ONLY]))
    return Placer(NodeArrays(nodes), placing, **more)  # type: ignore[arg-type]


def put(to: Placer, shape: Shape) -> tuple[str, tuple[int, ...]] | None:
    seat = to.find(shape)
    if seat is None:
        return None
    to.take(shape, seat)
    return to.cluster.nodes[seat.node].name, seat.gpus


@pytest.mark.parametrize("placing", EVERY_RULE)
def test_a_full_cluster_takes_nothing_and_what_ends_makes_room(placing: Placing) -> None:
    one = placer([node("a"), node("b")], placing)
    for _ in range(4):
        assert put(one, WHOLE)
    assert put(one, HALF) is None
    seat = Seat(0, (1,), 1000)
    one.give_back(WHOLE, seat)
    assert put(one, HALF) == ("a", (1,))
    assert put(one, WHOLE) is None
    assert put(one, HALF) == ("a", (1,))


@pytest.mark.parametrize("placing", EVERY_RULE)
def test_only_models_that_will_do_are_used(placing: Placing) -> None:
    one = placer([node("a", model="T4"), node("b", model="A100"), node("c", 0)], placing)
    picky = Shape(1000, 1024, 1, 1000, models=frozenset({"A100", "H100"}))
    assert [put(one, picky) for _ in range(3)] == [("b", (0,)), ("b", (1,)), None]


@pytest.mark.parametrize("placing", EVERY_RULE)
def test_several_gpus_are_different_ones(placing: Placing) -> None:
    one = placer([node("a", 4)], placing, choosing=Choosing.BEST_FIT)
    assert put(one, Shape(1000, 1024, 2, 1000)) == ("a", (0, 1))
    assert put(one, Shape(1000, 1024, 2, 500)) == ("a", (2, 3))
    assert put(one, Shape(1000, 1024, 2, 500)) == ("a", (2, 3))
    assert put(one, Shape(1000, 1024, 2, 1)) is None


@pytest.mark.parametrize("placing", EVERY_RULE)
def test_cpu_and_memory_are_never_more_than_there_is(placing: Placing) -> None:
    one = placer([node("a", 8, cpu=2500)], placing)
    assert put(one, HALF)
    assert put(one, HALF)
    assert put(one, HALF) is None  # two CPUs are taken, half of one is left
    big = placer([node("a", 8)], placing)
    assert put(big, Shape(1000, 65536, 1, 500))
    assert put(big, Shape(1000, 1, 1, 500)) is None


@pytest.mark.parametrize("placing", EVERY_RULE)
def test_memory_of_a_gpu_counts_by_the_size_of_the_gpu(placing: Placing) -> None:
    nodes = [
        Node("small", 64000, 65536, gpus(1), "T4", gpu_memory_mib=16000),
        Node("large", 64000, 65536, gpus(1), "A100", gpu_memory_mib=80000),
    ]
    asks = Shape(1000, 1024, 1, 0, gpu_memory_mib=20000)
    one = placer(nodes, placing, typical=typical([asks, HALF]))
    assert [put(one, asks) for _ in range(5)] == [("large", (0,))] * 4 + [None]
    assert one.cluster.used_milli == 1000


def test_best_fit_takes_the_node_that_is_left_with_the_least() -> None:
    one = placer([node("a", 8), node("b", 2), node("c", 4)], Placing.BEST_FIT)
    assert put(one, WHOLE) == ("b", (0,))


def test_worst_fit_takes_the_node_that_is_left_with_the_most() -> None:
    one = placer([node("a", 4), node("b", 8), node("c", 2)], Placing.WORST_FIT)
    assert put(one, WHOLE) == ("b", (0,))


def test_bin_pack_goes_on_where_it_began_and_spread_does_not() -> None:
    nodes = [node("a"), node("b")]
    assert [put(placer(nodes, Placing.BIN_PACK), WHOLE)] == [("a", (0,))]
    packed = placer(nodes, Placing.BIN_PACK)
    assert [put(packed, WHOLE) for _ in range(3)] == [("a", (0,)), ("a", (1,)), ("b", (0,))]
    wide = placer(nodes, Placing.SPREAD)
    assert [put(wide, WHOLE) for _ in range(3)] == [("a", (0,)), ("b", (0,)), ("a", (1,))]


def test_spread_goes_by_how_busy_gpus_are_where_that_is_measured() -> None:
    busy = Node(
        "a", 64000, 65536, (GpuDevice(0, utilisation=0.9), GpuDevice(1, utilisation=0.9)), "T4"
    )
    idle = Node(
        "b", 64000, 65536, (GpuDevice(0, utilisation=0.1), GpuDevice(1, utilisation=0.1)), "T4"
    )
    one = placer([busy, idle], Placing.SPREAD)
    assert [put(one, WHOLE) for _ in range(3)] == [("b", (0,)), ("b", (1,)), ("a", (0,))]


def test_random_uses_all_nodes_and_the_seed_decides() -> None:
    nodes = [node(f"n{at}", 8) for at in range(8)]

    def chosen(seed: int) -> list[object]:
        one = placer(nodes, Placing.RANDOM, seed=seed)
        return [put(one, WHOLE) for _ in range(30)]

    assert chosen(1) == chosen(1) != chosen(2)
    assert len({found[0] for found in chosen(1) if isinstance(found, tuple)}) > 5


@pytest.mark.parametrize(
    ("choosing", "gpu"), [(Choosing.BEST_FIT, 1), (Choosing.WORST_FIT, 3), (Choosing.FIRST, 0)]
)
def test_the_gpu_is_chosen_apart_from_the_node(choosing: Choosing, gpu: int) -> None:
    one = placer([node("a", 4)], Placing.BIN_PACK, choosing=choosing)
    for at, taken in enumerate((300, 400, 200)):
        shape = Shape(0, 0, 1, taken)
        one.take(shape, Seat(0, (at,), taken))
    assert put(one, Shape(0, 0, 1, 500)) == ("a", (gpu,))


def test_a_part_goes_where_it_leaves_no_fragment() -> None:
    """Beside another half there is no room for a whole GPU to be lost."""
    one = placer([node("a"), node("b")])
    assert put(one, HALF) == ("a", (0,))
    assert put(one, HALF) == ("a", (0,))


def test_gpus_that_somebody_asks_for_by_name_are_kept_for_them() -> None:
    picky = Shape(1000, 1024, 1, 1000, models=frozenset({"T4"}))
    coming = typical([picky, picky, WHOLE])
    one = placer([node("a", model="T4"), node("b", model="A100")], typical=coming)
    assert put(one, WHOLE) == ("b", (0,))
    assert put(one, picky) == ("a", (0,))
    assert put(one, WHOLE) == ("b", (1,))
    assert put(one, WHOLE) == ("a", (1,))  # rather than nowhere


def test_large_nodes_are_kept_for_the_tasks_that_need_them() -> None:
    """Even for a task that is too rare to be typical, and where the order among equals says no."""
    needs = Shape(60000, 1024, 2, 1000)
    coming = typical([*[WHOLE] * 96, *[needs] * 4])
    assert [shape.gpus for shape, _ in coming.shapes] == [1]
    one = placer([node("a", 2, cpu=64000), node("b", 2, cpu=32000)], typical=coming)
    assert put(one, WHOLE) == ("b", (0,))
    assert put(one, needs) == ("a", (0, 1))
    assert put(one, WHOLE) == ("b", (1,))


def test_cpus_stay_where_they_feed_gpus() -> None:
    """A task without GPUs goes where its CPUs are not needed."""
    one = placer([node("a", 2, cpu=4000), node("b", 2, cpu=64000)], typical=typical([WHOLE]))
    assert put(one, Shape(3000, 1024)) == ("b", ())


def test_memory_stays_where_it_feeds_gpus() -> None:
    small = Node("a", 64000, 4096, gpus(2), "T4")
    large = Node("b", 64000, 65536, gpus(2), "T4")
    coming = typical([Shape(1000, 2048, 1, 1000)])
    one = placer([small, large], typical=coming)
    assert put(one, Shape(1000, 1024)) == ("b", ())


def test_gpus_that_are_not_healthy_are_full() -> None:
    broken = Node("a", 64000, 65536, (GpuDevice(0, is_healthy=False), GpuDevice(1)), "T4")
    one = placer([broken])
    assert [put(one, WHOLE) for _ in range(2)] == [("a", (1,)), None]
    assert one.cluster.gpu_milli_total == 1000


def test_only_nodes_that_are_allowed_are_used() -> None:
    one = placer([node("a"), node("b")])
    allowed = np.array([False, True])
    found = one.find(WHOLE, Mask(allowed))
    assert found is not None
    assert found.node == 1
    assert one.find(WHOLE, Mask(np.array([False, False]))) is None


def test_among_equals_the_order_that_was_given_decides_and_else_the_name() -> None:
    nodes = [node("b"), node("a"), node("c")]
    assert put(placer(nodes), WHOLE) == ("a", (0,))
    assert put(placer(nodes, order=[2, 1, 0]), WHOLE) == ("c", (0,))
    with pytest.raises(InvalidValue, match="an order of 2 for 3"):
        placer(nodes, order=[0, 1])


def test_more_shapes_than_scores_are_kept_for_are_still_placed_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moiety.policy.place.placer.KEPT_SCORES", 1)
    one = placer([node("a", 1), node("b", 1)], Placing.BIN_PACK)
    shapes = [Shape(cpu, 0, 1, 1000) for cpu in range(ROWS_MIN + 5)]
    for shape in shapes * 2:
        assert put(one, shape) == ("a", (0,))
        assert put(one, shape) == ("b", (0,))
        assert put(one, shape) is None
        for at in (0, 1):
            one.give_back(shape, Seat(at, (0,), 1000))


def test_a_pool_without_nodes_takes_nothing() -> None:
    for placing in EVERY_RULE:
        assert placer([], placing).find(WHOLE) is None


def test_nothing_is_known_of_what_comes() -> None:
    one = placer([node("a")], typical=WorkloadMix(()))
    assert put(one, HALF) == ("a", (0,))
    assert put(one, WHOLE) == ("a", (1,))


def test_taking_more_than_there_is_is_found_out() -> None:
    cluster = NodeArrays([node("a")])
    cluster.take(HALF, Seat(0, (0,), 500))
    with pytest.raises(InternalError, match="GPU 0 of a"):
        cluster.take(WHOLE, Seat(0, (0,), 1000))
    with pytest.raises(InternalError, match="GPU 1 of a"):
        cluster.give_back(HALF, Seat(0, (1,), 500))
    with pytest.raises(InternalError, match="a has"):
        cluster.take(Shape(65000), Seat(0, (), 0))
    assert cluster.used_milli == 500


@pytest.mark.parametrize("several", [False, True], ids=["few nodes", "many nodes"])
@pytest.mark.parametrize("parts", [[HALF], [WHOLE], []], ids=["parts", "whole", "nothing known"])
def test_a_part_of_a_gpu_opens_no_other_where_ties_go_by_name(
    parts: list[Shape], several: bool
) -> None:
    nodes = [node(f"n{at:02}") for at in range(60 if several else 2)]
    here = placer(nodes, typical=typical(parts))
    here.take(HALF, Seat(len(nodes) - 1, (1,), 500))
    assert here.find(HALF) == Seat(len(nodes) - 1, (1,), 500)
