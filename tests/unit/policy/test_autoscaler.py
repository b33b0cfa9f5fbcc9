"""Dynamic pools: nodes are started for who would have room on them, and idle ones given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain
from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.decisions import Decision, Growth, Release
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot, Starting
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Affinity, Domain, Workload
from moiety.sim.scenario import after
from tests.unit.policy.build import node, placed, refused, runs, work
from tests.unit.policy.clusters import cluster

ALL = Queue("a", quota=Amounts())


def dynamic(name: str = "cloud", count: int = 4, **more: Any) -> Pool:
    """Its nodes have `count` GPUs; they start in 100 s, and go after 60 s."""
    usual: dict[str, Any] = {"start_s": 100.0, "idle_s": 60.0, "template": node("like", count)}
    return Pool(name, is_dynamic=True, **usual | more)


def of(pool: str, *nodes: Node) -> tuple[Node, ...]:
    return tuple(replace(each, pool=pool) for each in nodes)


def growths(decisions: Sequence[Decision]) -> dict[str, Growth]:
    return {each.pool: each for each in decisions if isinstance(each, Growth)}


def released(decisions: Sequence[Decision]) -> list[str]:
    return [each.node for each in decisions if isinstance(each, Release)]


def test_an_empty_pool_starts_the_fewest_nodes_on_which_those_who_wait_have_room() -> None:
    jobs = (work("gang", count=4, tasks=2), work("one"), work("two", count=2))
    snapshot = Snapshot((), jobs, (), (ALL,), (dynamic(),), now_s=7.0)
    decisions = decide(snapshot)
    [growth] = growths(decisions).values()
    assert growth.nodes == 3
    assert growth.ready_s == 107.0
    assert sorted(growth.for_workloads) == ["gang", "one", "two"]
    assert growth.text.startswith(
        "pool cloud wants 3 more nodes (4 T4 GPUs each), expected in 100 s"
    )
    found = refused(decisions)
    assert not any(each.is_final for each in found.values())
    assert "a node of pool cloud is being started for it, expected in 100 s" in found["gang"].text


def test_nodes_that_start_are_counted_and_nobody_asks_twice() -> None:
    jobs = (work("x", count=4), work("y", count=4), work("z", count=4))
    coming = (Starting("cloud", 40.0), Starting("cloud", 90.0))
    snapshot = Snapshot((), jobs, (), (ALL,), (dynamic(),), now_s=10.0, starting=coming)
    decisions = decide(snapshot)
    assert growths(decisions)["cloud"].nodes == 1
    assert growths(decisions)["cloud"].numbers["starting"] == 2
    waits = sorted(each.numbers["node_expected_s"] for each in refused(decisions).values())
    assert waits == [30, 80, 100]


def test_nodes_that_start_next_are_in_their_own_domains() -> None:
    """The template is in one rack; of the nodes that start, the third is the first of two in one.

    A node that starts already is the first of them.
    """
    template = node("like", rack="r1")
    domains = tuple((("rack", name),) for name in ("r2", "r3", "r4", "r3"))
    gang = work("gang", count=4, tasks=2, whole=Domain("rack"))
    same = Snapshot((), (gang,), (), (ALL,), (dynamic(template=template),))
    assert growths(decide(same))["cloud"].nodes == 2
    pools = (dynamic(template=template, domains=domains),)
    there = replace(same, pools=pools)
    assert growths(decide(there))["cloud"].nodes == 4
    starts = replace(there, starting=(Starting("cloud", 9.0),))
    assert growths(decide(starts))["cloud"].nodes == 3
    few = (dynamic(template=template, domains=domains, nodes_max=3),)
    assert growths(decide(replace(there, pools=few))) == {}


def test_never_more_than_the_most() -> None:
    jobs = tuple(work(f"w{at}", count=4) for at in range(9))
    here = of("cloud", node("c0"))
    for starts in range(3):
        coming = (Starting("cloud", 9.0),) * starts
        pools = (dynamic(nodes_max=4),)
        decisions = decide(Snapshot(here, jobs, (), (ALL,), pools, starting=coming))
        assert growths(decisions)["cloud"].nodes == 3 - starts
    decisions = decide(Snapshot(here, jobs, (), (ALL,), (dynamic(nodes_max=1),)))
    assert growths(decisions) == {}
    assert not any(each.is_final for each in refused(decisions).values())


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(work("w", count=5), id="larger than the template"),
        pytest.param(work("w", count=4, tasks=3), id="larger than the pool may be"),
        pytest.param(work("w", "small", count=3), id="its queue's limit"),
        pytest.param(work("w", count=1, pools=frozenset({"own"})), id="of another pool"),
        pytest.param(work("w", count=4, tasks=2, domain=Domain("node")), id="not in one domain"),
        pytest.param(work("w", "small", count=3, is_preemptible=False), id="its queue's quota"),
        pytest.param(work("w", is_opportunistic=True), id="what nobody else wants is enough"),
    ],
)
def test_nothing_is_started_for_who_would_not_begin_there(job: Workload) -> None:
    full = work("full", count=4)
    pools = (Pool("own"), dynamic(nodes_max=2))
    queues = (ALL, Queue("small", None, Amounts(gpu_milli=2000), Amounts(gpu_milli=2000)))
    here = of("own", node("o"))
    running = tuple(runs(full, (0, 1, 2, 3), on="o"))
    snapshot = Snapshot(here, (full, job), running, queues, pools, now_s=9.0)
    assert growths(decide(snapshot)) == {}


def test_a_larger_template_is_no_reason_where_there_is_room() -> None:
    """The room is kept for a gang that has waited long, and who comes later only waits its turn."""
    have, gang, late = work("have", count=2), work("gang", count=2, tasks=2), work("late")
    here = (node("x", 2), node("y", 2))
    running = tuple(runs(have, (0, 1), on="x", since_s=900.0))
    only = dynamic(count=1)
    snapshot = Snapshot(here, (have, gang, late), running, (ALL,), (Pool(), only), now_s=1000.0)
    settings = CycleSettings(runtimes=lambda workload: 200.0 if workload.name == "have" else None)
    decisions = decide(snapshot, settings=settings)
    assert set(refused(decisions)) == {"gang", "late"}
    assert growths(decisions) == {}


def test_the_part_that_a_gang_can_do_without_starts_nothing() -> None:
    job = work("w", count=4, tasks=3, least=1)
    snapshot = Snapshot(of("cloud", node("c")), (job,), (), (ALL,), (dynamic(),))
    decisions = decide(snapshot)
    assert len(placed(decisions)) == 1
    assert growths(decisions) == {}


def test_company_keeps_apart_on_new_nodes_too() -> None:
    alone = Affinity(exclusion="red")
    jobs = (work("x", count=0.5, company=alone), work("y", count=0.5))
    pools = (dynamic(count=1),)
    assert growths(decide(Snapshot((), jobs, (), (ALL,), pools)))["cloud"].nodes == 2


def test_the_first_pool_with_which_there_is_room_grows() -> None:
    pools = (dynamic("small", 2), dynamic("large", 8), dynamic("last", 8))
    jobs = (work("s", count=2), work("l", count=8))
    found = growths(decide(Snapshot((), jobs, (), (ALL,), pools)))
    assert {name: each.for_workloads for name, each in found.items()} == {
        "small": ("s",),
        "large": ("l",),
    }


def test_who_is_served_first_gets_the_last_node() -> None:
    low, high = work("low", count=4), work("high", count=4, priority=5, submitted_s=3.0)
    snapshot = Snapshot((), (low, high), (), (ALL,), (dynamic(nodes_max=1),), now_s=5.0)
    assert growths(decide(snapshot))["cloud"].for_workloads == ("high",)


def idle(count: int, since_s: float = 0.0, **more: Any) -> Snapshot:
    here = of("cloud", *(node(f"c{at}") for at in range(count)))
    since = {each.name: since_s + at for at, each in enumerate(here)}
    return Snapshot(here, (), (), (ALL,), (dynamic(**more),), now_s=100.0, empty_since=since)


def test_nodes_that_have_been_empty_for_long_are_given_back_the_longest_first() -> None:
    assert released(decide(idle(4, nodes_min=1))) == ["c0", "c1", "c2"]
    assert released(decide(idle(4, nodes_min=5))) == []
    assert released(decide(idle(4, since_s=39.0))) == ["c0", "c1"]
    assert released(decide(replace(idle(2), empty_since={}))) == []
    [first, *_] = (each for each in decide(idle(4, nodes_min=1)) if isinstance(each, Release))
    assert first.text == (
        "node c0 of pool cloud has been empty for 100 s, and no workload that waits would have "
        "room on it: 3 are left, of at least 1"
    )


def test_a_node_is_kept_for_who_begins_there_now_or_waits_for_it_with_others() -> None:
    one = replace(idle(2), workloads=(work("w"),))
    decisions = decide(one)
    [spot] = placed(decisions).values()
    assert released(decisions) == [each for each in ("c0", "c1") if each != spot.node]
    gang = work("gang", count=4, tasks=3)
    decisions = decide(replace(idle(2), workloads=(gang,)))
    assert growths(decisions)["cloud"].nodes == 1
    assert released(decisions) == []
    coming = replace(idle(2), workloads=(gang,), starting=(Starting("cloud", 110.0),))
    decisions = decide(coming)
    assert growths(decisions) == {}
    assert released(decisions) == []


def test_a_node_is_kept_for_who_waits_until_others_end() -> None:
    """The pool is as large as it may be: a node given back now would be started again."""
    have, gang = work("have", count=4), work("gang", count=4, tasks=2)
    whole = idle(2, nodes_max=2)
    running = tuple(runs(have, (0, 1, 2, 3), on="c0"))
    since = {"c1": 0.0}
    there = replace(whole, workloads=(have, gang), running=running, empty_since=since)
    assert released(decide(there)) == []
    alone = replace(there, workloads=(have,))
    assert released(decide(alone)) == ["c1"]


def test_static_pools_neither_grow_nor_shrink() -> None:
    snapshot = replace(idle(3), pools=(Pool("cloud"),), workloads=(work("w", count=9),))
    decisions = decide(snapshot)
    assert growths(decisions) == {}
    assert released(decisions) == []


def test_explanations_tell_when_the_node_is_expected() -> None:
    have, new = work("have", count=4), work("new", count=4)
    running = tuple(runs(have, (0, 1, 2, 3), on="c"))
    here = of("cloud", node("c"))
    snapshot = Snapshot(here, (have, new), running, (ALL,), (dynamic(),), now_s=1000.0)
    settings = CycleSettings(runtimes=lambda _: 5000.0)
    found = explain(snapshot, "new", settings=settings)
    assert found.status == "waits"
    assert "a node of pool cloud is being started for it, expected in 100 s" in found.sentence
    assert found.start
    assert found.start.expected_s == 100.0
    later = replace(snapshot, starting=(Starting("cloud", 1100.0),), now_s=1070.0)
    assert "expected in 30 s" in explain(later, "new", settings=settings).sentence
    nobody = replace(snapshot, nodes=(), workloads=(new,), running=())
    assert explain(nobody, "new").status == "waits"


def test_a_cycle_that_has_no_time_left_starts_nothing() -> None:
    now = iter(range(1000))
    budget = WorkBudget(seconds=1, clock=lambda: float(next(now)))
    jobs = (work("x", count=4), work("y", count=4))
    decisions = decide(Snapshot((), jobs, (), (ALL,), (dynamic(),)), budget=budget)
    assert growths(decisions) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes_min": -1},
        {"nodes_min": 3, "nodes_max": 2},
        {"start_s": -1.0},
        {"idle_s": -1.0},
        {"template": None},
    ],
)
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        dynamic(**wrong)


def test_a_node_of_a_static_pool_cannot_start() -> None:
    with pytest.raises(InvalidValue):
        Snapshot((), starting=(Starting("default", 1.0),))


def quiet(snapshot: Snapshot, cycles: int) -> tuple[Snapshot, list[int]]:
    """After so many cycles in which nobody comes or ends; how much was scaled in each."""
    settings, done = CycleSettings(min_run_s=1.0), []
    for _ in range(cycles):
        decisions = decide(snapshot, settings=settings)
        done.append(_check(snapshot, decisions))
        snapshot = after(snapshot, decisions)
    return snapshot, done


def _check(snapshot: Snapshot, decisions: Sequence[Decision]) -> int:
    """Bounds hold, and what is given back is empty."""
    more, less = growths(decisions), released(decisions)
    there = Counter(each.pool for each in snapshot.nodes)
    coming = Counter(each.pool for each in snapshot.starting)
    pool_of = {each.name: each.pool for each in snapshot.nodes}
    then = after(snapshot, decisions)
    assert not {each.spot.node for each in then.running} & set(less)
    for pool in snapshot.pools:
        own = [name for name in less if pool_of[name] == pool.name]
        assert not (own and pool.name in more)
        if own:
            assert there[pool.name] - len(own) >= pool.nodes_min
        if pool.name in more and pool.nodes_max is not None:
            whole = there[pool.name] + coming[pool.name] + more[pool.name].nodes
            assert whole <= pool.nodes_max
    return sum(each.nodes for each in more.values()) + len(less)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_pools_come_to_rest_when_nobody_comes_or_ends(seed: int) -> None:
    random = Random(seed)
    whole = cluster(seed, nodes=9, jobs=20)
    own = of("own", *whole.nodes[:3])
    cloud = of("cloud", *whole.nodes[3:6])
    pools = (
        Pool("own"),
        dynamic(count=8, start_s=3.0, idle_s=2.0, nodes_min=1, nodes_max=random.randint(3, 6)),
        dynamic("spare", 2, start_s=5.0, idle_s=0.0, nodes_max=random.choice((0, 2, 9))),
    )
    jobs = tuple(replace(each, max_run_s=None) for each in whole.workloads)
    snapshot = replace(whole, nodes=(*own, *cloud), workloads=jobs, pools=pools)
    assert decide(snapshot) == decide(snapshot)
    snapshot, _ = quiet(snapshot, 16)
    snapshot, done = quiet(snapshot, 6)
    assert sum(done) == 0
    rest = replace(snapshot, workloads=(), running=())
    rest, _ = quiet(rest, 10)
    left = Counter(each.pool for each in rest.nodes)
    assert left == Counter({"own": 3, "cloud": 1})


def test_names_and_order_of_input_do_not_matter() -> None:
    jobs = tuple(work(f"w{at}", count=1 + at % 4, submitted_s=float(at)) for at in range(9))
    here = of("cloud", node("c0"), node("c1"))
    snapshot = Snapshot(here, jobs, (), (ALL,), (dynamic(),), now_s=20.0)
    backwards = replace(snapshot, nodes=here[::-1], workloads=jobs[::-1])
    assert growths(decide(snapshot)) == growths(decide(backwards))
