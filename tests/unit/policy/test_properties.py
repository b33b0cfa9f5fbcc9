"""What holds for every cluster and every order of arrivals."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.policy.model.cluster import Choosing, Node, Placing, gpus
from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import NodeArrays, Seat
from moiety.policy.place.placement_refusals import refuse
from moiety.policy.place.placer import Placer
from moiety.policy.place.workload_mix import typical

MODELS = ("A10", "T4", "V100")

nodes_of = st.lists(
    st.builds(
        lambda cpu, memory, count, model, gpu_memory: (
            cpu * 1000,
            memory * 1024,
            count,
            model if count else "",
            gpu_memory,
        ),
        st.integers(0, 16),
        st.integers(0, 16),
        st.integers(0, 4),
        st.sampled_from(MODELS),
        st.sampled_from((0, 16000, 40000)),
    ),
    min_size=1,
    max_size=5,
)
shapes = st.builds(
    lambda cpu, memory, gpu, models: Shape(cpu * 500, memory * 512, gpu[0], gpu[1], gpu[2], models),
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from(
        [(0, 0, 0), (1, 1000, 0), (1, 500, 0), (1, 300, 0), (2, 1000, 0), (2, 250, 0), (1, 0, 9000)]
    ),
    st.sampled_from([frozenset[str](), frozenset({"T4"}), frozenset({"A10", "V100"})]),
)
placings = st.sampled_from(list(Placing))
choosings = st.sampled_from(list(Choosing))
arrivals = st.lists(shapes, min_size=1, max_size=25)
Facts = tuple[int, int, int, str, int]


def build(facts: list[Facts], names: list[str] | None = None) -> list[Node]:
    return [
        Node(names[at] if names else f"n{at}", cpu, memory, gpus(count), model, gpu_memory)
        for at, (cpu, memory, count, model, gpu_memory) in enumerate(facts)
    ]


def recount(cluster: NodeArrays, running: list[tuple[Shape, Seat]]) -> None:
    """What is free, from nothing but the nodes and what runs on them."""
    cpu, memory, left = cluster.cpu.copy(), cluster.memory.copy(), cluster.capacity.copy()
    for shape, seat in running:
        assert len(set(seat.gpus)) == len(seat.gpus) == shape.gpus
        cpu[seat.node] -= shape.cpu_milli
        memory[seat.node] -= shape.memory_mib
        for gpu in seat.gpus:
            left[seat.node, gpu] -= seat.gpu_milli
    for free, expected in (
        (cluster.free_cpu, cpu),
        (cluster.free_memory, memory),
        (cluster.left, left),
        (cluster.ordered, np.sort(left, axis=1)),
        (cluster.left_total, left.sum(axis=1)),
    ):
        assert (expected >= 0).all()
        assert (free == expected).all()
    assert cluster.used_milli == cluster.gpu_milli_total - left.sum()


@given(nodes_of, arrivals, placings, choosings, st.data())
def test_nothing_is_ever_given_twice_and_all_comes_back(
    facts: list[Facts],
    coming: list[Shape],
    placing: Placing,
    choosing: Choosing,
    data: st.DataObject,
) -> None:
    cluster = NodeArrays(build(facts))
    placer = Placer(cluster, placing, choosing, typical(coming))
    running: list[tuple[Shape, Seat]] = []
    for shape in coming:
        room = cluster.has_room(shape)
        seat = placer.find(shape)
        assert (seat is not None) == room.any()
        if seat is not None:
            assert room[seat.node]
            placer.take(shape, seat)
            running.append((shape, seat))
        ending = data.draw(st.integers(-3, 3), label="who ends")
        if 0 <= ending < len(running):
            placer.give_back(*running.pop(ending))
        recount(cluster, running)


@settings(max_examples=50)
@given(nodes_of, arrivals, st.sampled_from([p for p in Placing if p is not Placing.RANDOM]))
def test_scores_that_are_kept_are_those_that_would_be_found_anew(
    facts: list[Facts], coming: list[Shape], placing: Placing
) -> None:
    nodes = build(facts)
    known = typical(coming)
    placer = Placer(NodeArrays(nodes), placing, typical=known)
    for shape in coming:
        fresh = Placer(placer.cluster.copy(), placing, typical=known)
        seat = placer.find(shape)
        assert seat == fresh.find(shape)
        if seat is not None:
            placer.take(shape, seat)


@given(nodes_of, arrivals, placings, st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_listed_changes_nothing(
    facts: list[Facts], coming: list[Shape], placing: Placing, random: object
) -> None:
    if placing is Placing.RANDOM:
        return
    nodes = build(facts)
    shuffled = nodes.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert places(nodes, coming, placing) == places(shuffled, coming, placing)


@settings(max_examples=50)
@given(nodes_of, arrivals, st.sampled_from([p for p in Placing if p is not Placing.RANDOM]))
def test_new_names_change_nothing_but_the_choice_among_equals(
    facts: list[Facts], coming: list[Shape], placing: Placing
) -> None:
    """With the same order among equals, names do not matter at all."""
    nodes = build(facts)
    names = [f"x{len(facts) - at}" for at in range(len(facts))]
    order = list(range(len(facts)))
    before = places(nodes, coming, placing, order)
    after = places(build(facts, names), coming, placing, order)
    new = dict(zip([node.name for node in nodes], names, strict=True))
    assert after == [found and (new[found[0]], found[1]) for found in before]


def places(
    nodes: list[Node], coming: list[Shape], placing: Placing, order: list[int] | None = None
) -> list[tuple[str, tuple[int, ...]] | None]:
    cluster = NodeArrays(nodes)
    placer = Placer(cluster, placing, typical=typical(coming), order=order)
    found: list[tuple[str, tuple[int, ...]] | None] = []
    for shape in coming:
        seat = placer.find(shape)
        if seat is None:
            found.append(None)
            continue
        placer.take(shape, seat)
        found.append((cluster.nodes[seat.node].name, seat.gpus))
    return found


@given(nodes_of, arrivals, shapes)
def test_what_fits_an_empty_cluster_is_never_called_infeasible(
    facts: list[Facts], coming: list[Shape], shape: Shape
) -> None:
    cluster = NodeArrays(build(facts))
    placer = Placer(cluster, typical=typical([*coming, shape]))
    fits_empty = placer.find(shape) is not None
    for other in coming:
        seat = placer.find(other)
        if seat is not None:
            placer.take(other, seat)
    if placer.find(shape) is None:
        refusal = refuse(cluster, shape, Task("w", "main", 0))
        assert refusal.is_final == (not fits_empty)
        ruled_out = {k: v for k, v in refusal.numbers.items() if not k.startswith("most_")}
        assert sum(ruled_out.values()) == len(cluster)


@given(nodes_of, arrivals, shapes)
def test_removing_what_a_refusal_names_makes_room(
    facts: list[Facts], coming: list[Shape], shape: Shape
) -> None:
    """Nodes that are full of one thing take the task once that is given them in plenty."""
    cluster = NodeArrays(build(facts))
    placer = Placer(cluster, typical=typical(coming))
    for other in coming:
        seat = placer.find(other)
        if seat is not None:
            placer.take(other, seat)
    if placer.find(shape) is not None:
        return
    refusal = refuse(cluster, shape, Task("w", "main", 0))
    if refusal.numbers.get("memory-full"):  # the last that is looked at: nothing else is missing
        cluster.free_memory = cluster.memory
        assert cluster.has_room(shape).any()
    if refusal.is_final:
        assert not NodeArrays(build(facts)).has_room(shape).any()
    else:
        assert NodeArrays(build(facts)).has_room(shape).any()


@given(nodes_of, arrivals, placings)
def test_few_nodes_are_scored_as_many_are(
    facts: list[Facts], coming: list[Shape], placing: Placing
) -> None:
    cluster = NodeArrays(build(facts))
    placer = Placer(cluster, placing, typical=typical(coming))
    rule = placer._rule
    for shape in coming:
        for asked in {*coming}:
            room = cluster.has_room(asked)
            assert [cluster.has_room_on(asked, at) for at in range(len(cluster))] == room.tolist()
            nodes = np.flatnonzero(room)
            if len(nodes):
                few = rule.codes_of_few(cluster, asked, nodes.tolist())
                assert few == rule.codes(cluster, asked, nodes).tolist()
                assert few == rule.codes_of_few(cluster, asked, nodes.tolist())
        seat = placer.find(shape)
        if seat is not None:
            placer.take(shape, seat)


def test_a_row_that_missed_many_changes_is_scored_anew() -> None:
    cluster = NodeArrays([Node(f"n{at}", 64_000, 64_000, gpus(4), "T4", 16_000) for at in range(3)])
    placer = Placer(cluster, typical=typical([Shape(1000, 0, 1, 500)]))
    rare, common = Shape(1000, 0, 4, 1000), Shape(1000, 0, 1, 1000)
    assert placer.find(rare) == Seat(0, (0, 1, 2, 3), 1000)
    taken = []
    while (seat := placer.find(common)) is not None and seat.node < 2:
        placer.take(common, seat)
        taken.append(seat)
    for _ in range(3000):
        placer.give_back(common, taken[-1])
        placer.take(common, taken[-1])
    assert placer.find(rare) == Seat(2, (0, 1, 2, 3), 1000)
    placer.give_back(common, taken[0])
    assert placer.find(rare) == Seat(2, (0, 1, 2, 3), 1000)
