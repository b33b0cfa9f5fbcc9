"""Who may take from whom, looked at plan by plan; what a refusal names; and that names are names.

Every plan that a cycle makes is checked when it is made, against counts that are made anew from
what runs: not against what the engine thinks that queues have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from moiety.policy.cycle import Cycle, decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.cluster import Node
from moiety.policy.model.decisions import Eviction, Move, Placement, PlacementRefusal, Reason
from moiety.policy.model.queues import RESOURCES, Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Workload
from moiety.policy.preempt import reclaim
from moiety.policy.preempt.preemption_trial import EndedUnit
from moiety.policy.preempt.victims import Victims
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart
from moiety.sim.scenario import after
from tests.unit.policy.clusters import cluster
from tests.unit.policy.test_cycle_properties import node_lists, queue_trees, waves, workloads

SEEDS = range(3)
Has = dict[str, list[int]]


def count(state: ClusterState) -> Has:
    """What each queue has, and those above it, from what runs."""
    has = {name: [0] * len(RESOURCES) for name in state.standing.tree.queues}
    for task, seated in state.seated.items():
        workload = state.workloads[task.workload]
        if workload.is_opportunistic:
            continue
        for name in state.standing.tree.path(workload.queue):
            for at, amount in enumerate(seated.amounts):
                has[name][at] += amount
    return has


def above(has: Iterable[int], bounds: Iterable[int | None], only: Iterable[int]) -> bool:
    """Whether anything of which `only` says more than nothing is above its bound."""
    return any(
        asked and bound is not None and amount > bound
        for amount, bound, asked in zip(has, bounds, only, strict=True)
    )


def check_plan(state: ClusterState, piece: GangPart, plan: list[EndedUnit], before: Has) -> int:
    """Nobody within quota has yielded to anybody above its fair share; how many had to yield."""
    standing, mine = state.standing, piece.workload
    then = count(state)
    lost: dict[str, list[int]] = {}
    for ended in plan:
        for task, seated in zip(ended.unit.tasks, ended.seated, strict=True):
            assert ended.unit.workload.is_preemptible
            if task in state.seated or ended.unit.workload.is_opportunistic:
                continue
            theirs = ended.unit.workload
            assert theirs.queue != mine.queue
            sums = lost.setdefault(theirs.queue, [0] * len(RESOURCES))
            for at, amount in enumerate(seated.amounts):
                sums[at] += amount
    every = [1] * len(RESOURCES)
    for queue in lost:
        level = standing.fork(mine.queue, queue)
        ours, side = standing.paths[mine.queue][level:], standing.paths[queue][level]
        had = before[side]
        over_quota = above(had, standing.quota[side], every)
        over_share = above(had, standing.fair[side], every)
        assert over_quota or over_share, f"{queue} had neither too much nor more than its share"
        within_quota = not any(above(then[n], standing.quota[n], piece.amounts) for n in ours)
        within_share = not any(above(then[n], standing.fair[n], piece.amounts) for n in ours)
        assert within_quota or within_share, f"{mine.queue} took what is above both"
        if not over_quota:
            assert within_share, f"{queue} is within quota, and yielded to one above its share"
        if not (within_quota and over_quota):  # by fair share: never below quota
            quota, has = standing.quota[side][0], then[side][0]
            assert quota is None or has >= min(quota, standing.fair[side][0])
    return len(lost)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each plan of taking back that was made, how many queues yielded. Each is checked."""
    found: list[int] = []
    original = reclaim.reclaim

    def checked(state: ClusterState, piece: GangPart, leavers: Victims, moves_max: int) -> Any:
        before = count(state)
        plan = original(state, piece, leavers, moves_max)
        if plan is None:
            assert count(state) == before
        else:
            found.append(check_plan(state, piece, plan, before))
        return plan

    monkeypatch.setattr(reclaim, "reclaim", checked)
    return found


def test_nobody_within_quota_yields_to_anybody_above_its_fair_share(plans: list[int]) -> None:
    @given(node_lists, queue_trees(), workloads())
    @settings(max_examples=60, deadline=None)
    def holds(
        nodes: tuple[Node, ...], queues: tuple[Queue, ...], work: tuple[Workload, ...]
    ) -> None:
        snapshot = waves(nodes, queues, work)
        for _ in range(2):
            snapshot = after(snapshot, decide(snapshot))

    holds()
    assert any(plans), "nobody ever yielded, so this says nothing"


def crowded(seed: int) -> Snapshot:
    """A random cluster in which two queues came first and took all that there is."""
    whole = cluster(seed)
    greedy = tuple(w for w in whole.workloads if w.queue in ("a", "d"))
    first = replace(whole, workloads=greedy)
    return replace(after(first, decide(first)), workloads=whole.workloads)


@pytest.mark.slow
def test_nor_on_clusters_with_everything_in_them(plans: list[int]) -> None:
    for seed in range(8):
        snapshot = crowded(seed)
        for _ in range(3):
            snapshot = after(snapshot, decide(snapshot))
    assert any(plans), "nobody ever yielded, so this says nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_names_decide_nothing_but_ties(seed: int) -> None:
    """Other names in the same order: the same decisions, under the other names."""
    snapshot = crowded(seed)
    nodes = {node.name: f"host-{node.name}" for node in snapshot.nodes}
    jobs = {workload.name: f"job {workload.name}!" for workload in snapshot.workloads}
    queues = {queue.name: f"q.{queue.name}" for queue in snapshot.queues}
    other = replace(
        snapshot,
        nodes=tuple(replace(node, name=nodes[node.name]) for node in snapshot.nodes),
        workloads=tuple(
            replace(each, name=jobs[each.name], queue=queues[each.queue])
            for each in snapshot.workloads
        ),
        queues=tuple(
            replace(each, name=queues[each.name], parent=queues.get(each.parent or ""))
            for each in snapshot.queues
        ),
        running=tuple(_renamed(each, nodes, jobs) for each in snapshot.running),
        credit={queues[name]: amount for name, amount in snapshot.credit.items()},
    )

    def named(task: Task) -> Task:
        return Task(jobs[task.workload], task.subgroup, task.index)

    def put(spot: Spot) -> Spot:
        return spot._replace(node=nodes[spot.node])

    expected: list[tuple[object, ...]] = []
    for each in decide(snapshot):
        if isinstance(each, Placement):
            expected.append((named(each.task), put(each.spot)))
        elif isinstance(each, Move):
            expected.append((named(each.task), put(each.source), put(each.target)))
        elif isinstance(each, Eviction):
            whom = each.for_workload and jobs[each.for_workload]
            expected.append((named(each.task), put(each.spot), whom))
        elif isinstance(each, PlacementRefusal):
            expected.append((named(each.task), each.reason, each.numbers))
    found: list[tuple[object, ...]] = []
    for each in decide(other):
        if isinstance(each, Placement):
            found.append((each.task, each.spot))
        elif isinstance(each, Move):
            found.append((each.task, each.source, each.target))
        elif isinstance(each, Eviction):
            found.append((each.task, each.spot, each.for_workload))
        elif isinstance(each, PlacementRefusal):
            found.append((each.task, each.reason, each.numbers))
    assert found == expected


def _renamed(running: Running, nodes: dict[str, str], jobs: dict[str, str]) -> Running:
    task, spot = running.task, running.spot
    return replace(
        running,
        task=task._replace(workload=jobs[task.workload]),
        spot=spot._replace(node=nodes[spot.node]),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_without_what_a_refusal_names_the_work_begins_or_meets_another(seed: int) -> None:
    """A limit, a quota, room that is kept, GPUs, CPUs and memory in use: each is taken away."""
    snapshot = crowded(seed)
    cycle = Cycle(snapshot, None, CycleSettings())
    cycle.run()
    told = [each for each in cycle.decisions() if isinstance(each, PlacementRefusal)]
    then = after(snapshot, cycle.decisions())
    seen: set[Reason] = set()
    for refusal in told:
        name, reason = refusal.task.workload, refusal.reason
        again = _again(then, name, reason)
        if again is None or reason in seen:
            continue
        seen.add(reason)
        decisions = decide(again, settings=CycleSettings(reservations=0))
        begins = any(isinstance(d, Placement) and d.task.workload == name for d in decisions)
        later = {
            d.reason
            for d in decisions
            if isinstance(d, PlacementRefusal) and d.task.workload == name
        }
        assert begins or reason not in later, refusal.text
    assert seen


def _again(snapshot: Snapshot, name: str, reason: Reason) -> Snapshot | None:
    """The cluster without what a refusal names."""
    if reason is Reason.QUEUE_LIMIT:
        queues = tuple(replace(each, limit=Amounts()) for each in snapshot.queues)
        return replace(snapshot, queues=queues)
    if reason is Reason.QUEUE_QUOTA:
        queues = tuple(replace(each, quota=Amounts(), limit=Amounts()) for each in snapshot.queues)
        return replace(snapshot, queues=queues)
    if reason in (Reason.GPUS_FULL, Reason.CPU_FULL, Reason.MEMORY_FULL, Reason.TOPOLOGY):
        mine = tuple(each for each in snapshot.running if each.task.workload == name)
        work = tuple(each for each in snapshot.workloads if each.name == name)
        return None if mine else replace(snapshot, running=(), workloads=work, queues=())
    return None
