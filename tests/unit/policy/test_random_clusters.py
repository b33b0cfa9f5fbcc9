"""What holds of every cycle on random clusters with everything in them.

Topology, company, opportunists, quotas, priorities, budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain
from moiety.policy.model.cluster import Node
from moiety.policy.model.decisions import (
    BY_QUEUE,
    Decision,
    Eviction,
    Move,
    Placement,
    PlacementRefusal,
    Reason,
)
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Strictness, Workload
from moiety.policy.place.pools import Pools
from moiety.policy.place.topology import Domains
from moiety.policy.place.workload_mix import typical
from moiety.policy.queue.queue_usage import QueueUsage
from moiety.sim.scenario import after
from tests.unit.policy.clusters import NOW_S, cluster

pytestmark = pytest.mark.slow
SEEDS = range(5)
SETTINGS = CycleSettings(defragment_moves=4, min_run_s=1.0)


@cache
def in_waves(seed: int) -> list[Snapshot]:
    """A cluster in some cycles in which work comes, runs, and ends."""
    whole = cluster(seed)
    random = Random(seed)
    found = []
    snapshot = replace(whole, workloads=())
    left = list(whole.workloads)
    over: set[str] = set()
    for _ in range(8):
        coming, left = left[:8], left[8:]
        ending = {each.task.workload for each in snapshot.running if random.random() < 0.15}
        over |= ending
        snapshot = replace(
            snapshot,
            workloads=tuple(w for w in (*snapshot.workloads, *coming) if w.name not in over),
            running=tuple(each for each in snapshot.running if each.task.workload not in over),
        )
        found.append(snapshot)
        snapshot = after(snapshot, decide(snapshot, settings=SETTINGS))
    return found


def check(snapshot: Snapshot) -> None:
    """Nothing has more than there is or than it may; gangs are whole; all are where they belong."""
    nodes = {node.name: node for node in snapshot.nodes}
    left = {node.name: [1000] * len(node.gpus) for node in snapshot.nodes}
    memory_left = {node.name: [16000.0] * len(node.gpus) for node in snapshot.nodes}
    cpu = {node.name: node.cpu_milli for node in snapshot.nodes}
    memory = {node.name: node.memory_mib for node in snapshot.nodes}
    work = {workload.name: workload for workload in snapshot.workloads}
    standing = QueueUsage(snapshot.queues)
    of: dict[str, list[Running]] = {}
    labels: dict[tuple[str, int], list[Workload]] = {}
    for each in snapshot.running:
        spot, workload = each.spot, work[each.task.workload]
        node = nodes[spot.node]
        of.setdefault(workload.name, []).append(each)
        cpu[spot.node] -= each.shape.cpu_milli
        memory[spot.node] -= each.shape.memory_mib
        assert len(set(spot.gpus)) == each.shape.gpus
        assert spot.gpu_milli == (each.shape.milli_on(16000) if spot.gpus else spot.gpu_milli)
        assert not each.shape.models or node.model in each.shape.models
        for gpu in spot.gpus:
            left[spot.node][gpu] -= spot.gpu_milli
            along = spot.gpu_milli * 16000 / 1000
            memory_left[spot.node][gpu] -= (
                each.shape.gpu_memory_mib if each.shape.is_apart else along
            )
            labels.setdefault((spot.node, gpu), []).append(workload)
        if not workload.is_opportunistic:
            amounts = (len(spot.gpus) * spot.gpu_milli, 0, each.shape.cpu_milli, 0)
            standing.add(workload.queue, amounts, 1, guaranteed=not workload.is_preemptible)
    assert (
        min([*cpu.values(), *memory.values(), *(one for row in left.values() for one in row)]) >= 0
    )
    assert all(one >= 0 for row in memory_left.values() for one in row)
    for queue in snapshot.queues:
        limit, quota = queue.limit.gpu_milli, queue.quota.gpu_milli
        assert limit is None or standing.has[queue.name][0] <= limit
        assert quota is None or standing.guaranteed[queue.name][0] <= quota
    for workload in snapshot.workloads:
        running = of.get(workload.name, [])
        assert not running or len(running) >= workload.subgroups[0].tasks_min
    _check_company(labels)
    _check_domains(snapshot, of, work)


def _check_company(labels: dict[tuple[str, int], list[Workload]]) -> None:
    for on in labels.values():
        companies = [workload.subgroups[0].company for workload in on]
        rivals = [each.anti_affinity for each in companies if each.anti_affinity]
        assert len(rivals) == len(set(rivals))
        excluded = {each.exclusion for each in companies}
        assert len(excluded) == 1


def _check_domains(
    snapshot: Snapshot, of: dict[str, list[Running]], work: dict[str, Workload]
) -> None:
    pools = Pools(replace(snapshot, running=()), typical(()))
    domains = Domains(pools)
    at = {node.name: index for index, node in enumerate(snapshot.nodes)}
    for name, running in of.items():
        for domain in (work[name].domain, work[name].subgroups[0].domain):
            if domain is None or domain.strictness is not Strictness.REQUIRED:
                continue
            masks = [area.masks["default"] for area in domains.areas(domain.level)]
            assert any(
                all(
                    mask.nodes[at[each.spot.node]]
                    and (
                        mask.gpus is None
                        or mask.gpus[at[each.spot.node], list(each.spot.gpus)].all()
                    )
                    for each in running
                )
                for mask in masks
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_stays_within_what_there_is_and_where_it_belongs(seed: int) -> None:
    for snapshot in in_waves(seed):
        check(snapshot)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_yields_has_too_much_or_is_less_important(seed: int) -> None:
    for snapshot in in_waves(seed):
        decisions = decide(snapshot, settings=SETTINGS)
        standing = _standing(snapshot)
        work = {workload.name: workload for workload in snapshot.workloads}
        for each in decisions:
            if not isinstance(each, Eviction) or each.for_workload is None:
                continue
            theirs, ours = work[each.task.workload], work[each.for_workload]
            assert theirs.is_preemptible
            assert not ours.is_opportunistic
            if theirs.is_opportunistic or theirs.queue == ours.queue:
                assert theirs.is_opportunistic or theirs.priority < ours.priority
                continue
            assert standing.is_over_quota(_side(standing, theirs.queue, ours.queue))


def _standing(snapshot: Snapshot) -> QueueUsage:
    """With what had places before and gets some now: a queue can only have had less in between."""
    standing = QueueUsage(snapshot.queues)
    work = {workload.name: workload for workload in snapshot.workloads}
    running = [*snapshot.running, *after(snapshot, decide(snapshot, settings=SETTINGS)).running]
    for each in {(r.task, r.spot): r for r in running}.values():
        workload = work[each.task.workload]
        if not workload.is_opportunistic:
            amounts = (len(each.spot.gpus) * each.spot.gpu_milli, 0, each.shape.cpu_milli, 0)
            standing.add(workload.queue, amounts, 1, guaranteed=False)
    return standing


def _side(standing: QueueUsage, theirs: str, ours: str) -> str:
    return standing.paths[theirs][standing.fork(ours, theirs)]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_comes_to_rest(seed: int) -> None:
    """Without new work a cycle comes in which nothing happens any more."""
    snapshot = in_waves(seed)[-1]
    for _ in range(20):
        decisions = decide(snapshot, settings=SETTINGS)
        if not acts(decisions):
            return
        snapshot = after(snapshot, decisions)
    raise AssertionError(acts(decisions))


def acts(decisions: Sequence[Decision]) -> list[Decision]:
    return [each for each in decisions if isinstance(each, Placement | Eviction | Move)]


@pytest.mark.parametrize("seed", SEEDS)
def test_order_changes_nothing_and_the_same_is_decided_again(seed: int) -> None:
    random = Random(seed)
    for snapshot in in_waves(seed)[::3]:
        decisions = decide(snapshot, settings=SETTINGS)
        assert decide(snapshot, settings=SETTINGS) == decisions
        mixed = replace(
            snapshot,
            nodes=tuple(random.sample(snapshot.nodes, len(snapshot.nodes))),
            workloads=tuple(random.sample(snapshot.workloads, len(snapshot.workloads))),
            queues=tuple(random.sample(snapshot.queues, len(snapshot.queues))),
            running=tuple(random.sample(snapshot.running, len(snapshot.running))),
        )
        assert sorted(map(repr, decide(mixed, settings=SETTINGS))) == sorted(map(repr, decisions))


@pytest.mark.parametrize("seed", SEEDS)
def test_who_waits_is_told_why_and_what_fits_the_empty_cluster_never_that_it_never_will(
    seed: int,
) -> None:
    for snapshot in in_waves(seed)[::2]:
        decisions = decide(snapshot, settings=SETTINGS)
        then = after(snapshot, decisions)
        running = {each.task for each in then.running}
        told = {
            each.task.workload: each for each in decisions if isinstance(each, PlacementRefusal)
        }
        yielded = {each.task.workload for each in decisions if isinstance(each, Eviction)}
        for workload in then.workloads:
            count = sum(task.workload == workload.name for task in running)
            if count < workload.tasks:
                assert workload.name in told or workload.name in yielded
        for name, refusal in told.items():
            alone = replace(
                snapshot,
                workloads=tuple(w for w in snapshot.workloads if w.name == name),
                running=(),
                queues=snapshot.queues if refusal.reason in BY_QUEUE else (),
            )
            fits = any(isinstance(each, Placement) for each in decide(alone))
            assert not (refusal.is_final and fits)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_explanation_names_makes_room_when_it_is_gone(seed: int) -> None:
    snapshot = in_waves(seed)[-1]
    told = [each for each in decide(snapshot) if isinstance(each, PlacementRefusal)]
    first = Queue("first", quota=Amounts(), priority=99)
    for refusal in told[:6]:
        name = refusal.task.workload
        found = explain(snapshot, name)
        assert found.status in ("waits", "never", "runs", "begins")
        if found.status != "waits" or not found.end:
            continue
        then = after(snapshot, decide(snapshot))
        alone = replace(
            then,
            running=tuple(each for each in then.running if each.task not in found.end),
            workloads=tuple(
                replace(w, queue="first") if w.name == name else w
                for w in then.workloads
                if w.name == name or any(r.task.workload == w.name for r in then.running)
            ),
            queues=(*snapshot.queues, first),
        )
        assert any(
            isinstance(each, Placement) and each.task.workload == name
            for each in decide(alone, settings=CycleSettings(reservations=0))
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_any_budget_comes_to_what_none_would(seed: int) -> None:
    """As much runs in the end as without one; where and in which order may differ."""
    snapshot = in_waves(seed)[0]
    whole = snapshot
    for _ in range(10):
        whole = after(whole, decide(whole))
    budget = WorkBudget(steps=3)
    for _ in range(60):
        snapshot = after(snapshot, decide(snapshot, budget=budget))
    check(snapshot)
    assert not acts(decide(snapshot)) or len(snapshot.running) >= len(whole.running)


def test_the_clusters_have_everything_in_them() -> None:
    """Or the tests above would say little."""
    kinds: set[str] = set()
    reasons: set[Reason] = set()
    for seed in SEEDS:
        for snapshot in in_waves(seed):
            for each in decide(snapshot, settings=SETTINGS):
                kinds.add(type(each).__name__)
                if isinstance(each, PlacementRefusal):
                    reasons.add(each.reason)
                elif isinstance(each, Eviction):
                    kinds.add(each.reason.split(":")[0])
    assert {"Placement", "Eviction", "Move", "PlacementRefusal", "displaced"} <= kinds
    assert {Reason.TOPOLOGY, Reason.QUEUE_LIMIT, Reason.QUEUE_QUOTA, Reason.GPUS_FULL} <= reasons
    assert kinds & {"reclaimed", "preempted"}
    assert isinstance(cluster(0).nodes[0], Node)
    assert cluster(0).now_s == NOW_S
