"""What holds of every cycle, whatever the cluster, the queues and the work."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.policy.cycle import decide
from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.decisions import Eviction, Move, Placement
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.policy.queue.queue_usage import QueueUsage
from moiety.sim.scenario import after

T = TypeVar("T")
LEAVES = ("a", "b", "c")
CYCLES = 12

node_lists = st.lists(st.tuples(st.integers(0, 4), st.integers(2, 12)), min_size=1, max_size=3).map(
    lambda facts: tuple(
        Node(f"n{at}", cpu * 1000, 64, gpus(count), "T4" if count else "", 16000)
        for at, (count, cpu) in enumerate(facts)
    )
)
quotas = st.sampled_from((0, 1000, 2000, 3000))


@st.composite
def queue_trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    """Two departments, one of which has two queues; limits now and then."""

    def queue(name: str, parent: str | None, age: float) -> Queue:
        quota = draw(quotas)
        limit = draw(st.sampled_from((None, None, quota, quota + 1000)))
        return Queue(
            name,
            parent,
            Amounts(gpu_milli=quota),
            Amounts(gpu_milli=limit),
            draw(st.sampled_from((0.0, 1.0, 2.0))),
            draw(st.integers(0, 1)),
            created_s=age,
        )

    parts = [("d", None), ("e", None), ("a", "d"), ("b", "d"), ("c", "e")]
    return tuple(queue(name, parent, float(at)) for at, (name, parent) in enumerate(parts))


shapes = st.sampled_from(
    [
        Shape(1000, 1, 1, 1000),
        Shape(1000, 1, 2, 1000),
        Shape(1000, 1, 1, 500),
        Shape(500, 1, 1, 300),
        Shape(2000, 1),
        Shape(1000, 1, 1, 0, 9000),
    ]
)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Workload, ...]:
    found = []
    for at in range(draw(st.integers(1, 9))):
        tasks = draw(st.integers(1, 3))
        least = draw(st.integers(1, tasks))
        found.append(
            Workload(
                f"w{at}",
                (Subgroup("main", draw(shapes), tasks, least),),
                draw(st.sampled_from(LEAVES)),
                priority=draw(st.sampled_from((0, 5))),
                is_preemptible=draw(st.booleans()),
                submitted_s=float(at),
            )
        )
    return tuple(found)


def waves(
    nodes: tuple[Node, ...], queues: tuple[Queue, ...], work: tuple[Workload, ...]
) -> Snapshot:
    """Half of the work came first and runs, wherever it got places; the rest has just come."""
    first = Snapshot(nodes, work[: len(work) // 2], (), queues, now_s=100)
    return replace(after(first, decide(first)), workloads=work)


def check(snapshot: Snapshot) -> QueueUsage:
    """Nothing has more than there is or than it may; no gang runs in part."""
    left = {node.name: [1000] * len(node.gpus) for node in snapshot.nodes}
    cpu = {node.name: node.cpu_milli for node in snapshot.nodes}
    standing = QueueUsage(snapshot.queues)
    work = {workload.name: workload for workload in snapshot.workloads}
    for each in snapshot.running:
        spot, workload = each.spot, work[each.task.workload]
        cpu[spot.node] -= each.shape.cpu_milli
        for gpu in spot.gpus:
            left[spot.node][gpu] -= spot.gpu_milli
        amounts = (len(spot.gpus) * spot.gpu_milli, 0, each.shape.cpu_milli, 0)
        standing.add(workload.queue, amounts, 1, guaranteed=not workload.is_preemptible)
    assert min([*cpu.values(), *(one for row in left.values() for one in row), 0]) == 0
    for queue in snapshot.queues:
        limit, quota = queue.limit.gpu_milli, queue.quota.gpu_milli
        assert limit is None or standing.has[queue.name][0] <= limit
        assert quota is None or standing.guaranteed[queue.name][0] <= quota
    for workload in snapshot.workloads:
        count = sum(each.task.workload == workload.name for each in snapshot.running)
        assert count == 0 or count >= workload.subgroups[0].tasks_min
    return standing


@given(node_lists, queue_trees(), workloads())
@settings(max_examples=40, deadline=None)
def test_nothing_is_exceeded_and_no_gang_is_torn(
    nodes: tuple[Node, ...], queues: tuple[Queue, ...], work: tuple[Workload, ...]
) -> None:
    snapshot = waves(nodes, queues, work)
    check(snapshot)
    for _ in range(3):
        snapshot = after(snapshot, decide(snapshot))
        check(snapshot)


@given(node_lists, queue_trees(), workloads())
@settings(max_examples=40, deadline=None)
def test_who_is_guaranteed_stays_and_in_a_queue_only_lower_priority_yields(
    nodes: tuple[Node, ...], queues: tuple[Queue, ...], work: tuple[Workload, ...]
) -> None:
    snapshot = waves(nodes, queues, work)
    decisions = decide(snapshot)
    check(after(snapshot, decisions))
    by_name = {workload.name: workload for workload in work}
    for each in decisions:
        if not isinstance(each, Eviction) or each.for_workload is None:
            continue
        theirs, ours = by_name[each.task.workload], by_name[each.for_workload]
        assert theirs.is_preemptible
        assert theirs.queue != ours.queue or theirs.priority < ours.priority


@given(node_lists, queue_trees(), workloads())
@settings(max_examples=40, deadline=None)
def test_it_comes_to_rest(
    nodes: tuple[Node, ...], queues: tuple[Queue, ...], work: tuple[Workload, ...]
) -> None:
    """Without new work, a cycle comes in which nothing happens any more."""
    snapshot = waves(nodes, queues, work)
    for _ in range(CYCLES):
        decisions = decide(snapshot)
        if not any(isinstance(each, Placement | Eviction | Move) for each in decisions):
            return
        snapshot = after(snapshot, decisions)
    raise AssertionError(f"still at it after {CYCLES} cycles: {decisions}")


@given(node_lists, queue_trees(), workloads(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_input_does_not_matter(
    nodes: tuple[Node, ...],
    queues: tuple[Queue, ...],
    work: tuple[Workload, ...],
    random: Random,
) -> None:
    snapshot = waves(nodes, queues, work)
    decisions = decide(snapshot)
    assert decide(snapshot) == decisions

    def mixed(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(random.sample(items, len(items)))

    other = replace(
        snapshot,
        nodes=mixed(snapshot.nodes),
        workloads=mixed(snapshot.workloads),
        queues=mixed(snapshot.queues),
        running=mixed(snapshot.running),
    )
    assert sorted(map(repr, decide(other))) == sorted(map(repr, decisions))
