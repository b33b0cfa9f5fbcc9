"""Who shares a GPU with whom, and who is there only as long as nobody else wants the room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.decisions import Eviction, Reason
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Affinity, Shape, Workload, single
from tests.unit.policy.build import A, B, evicted, moved, node, placed, refused, runs, work


def quarter(name: str, at: float = 0.0, **company: Any) -> Workload:
    return work(name, count=0.25, company=Affinity(**company), submitted_s=at)


def gpus_of(*workloads: Workload, count: int = 2) -> dict[str, int]:
    found = placed(decide(Snapshot((node(count=count),), workloads)))
    return {task.split("/")[0]: spot.gpus[0] for task, spot in found.items()}


def test_friends_share_a_gpu_and_wait_where_it_is_full() -> None:
    friends = [quarter(f"f{at}", float(at), affinity="x") for at in range(5)]
    found = gpus_of(*friends)
    assert set(found) == {"f0", "f1", "f2", "f3"}
    assert len(set(found.values())) == 1
    decisions = decide(Snapshot((node(count=2),), tuple(friends)))
    assert refused(decisions)["f4"].reason is Reason.NOT_ALLOWED


def test_rivals_never_share_one() -> None:
    found = gpus_of(*(quarter(f"r{at}", float(at), anti_affinity="x") for at in range(3)))
    assert len(found) == 2
    assert len(set(found.values())) == 2


def test_an_exclusive_gpu_is_for_those_of_one_label() -> None:
    found = gpus_of(
        quarter("x0", 0, exclusion="x"),
        quarter("plain", 1),
        quarter("x1", 2, exclusion="x"),
        quarter("y0", 3, exclusion="y"),
        count=3,
    )
    assert found["x0"] == found["x1"]
    assert len({found["x0"], found["plain"], found["y0"]}) == 3


def test_an_opportunist_ends_for_anybody_and_counts_for_nobody() -> None:
    idle = work("idle", "b", 4, is_opportunistic=True)
    ours = work("ours", "a", 3)
    running = tuple(runs(idle, (0, 1, 2, 3)))
    decisions = decide(Snapshot((node(),), (idle, ours), running, (A, B)))
    assert evicted(decisions) == ["idle/main/0"]
    [eviction] = [each for each in decisions if isinstance(each, Eviction)]
    assert eviction.reason == "displaced: idle is opportunistic, and ours wants the room"
    assert list(placed(decisions)) == ["ours/main/0"]


def test_an_opportunist_takes_what_is_left_after_all_others() -> None:
    early, late = work("early", is_opportunistic=True), work("late", count=3, submitted_s=9)
    found = placed(decide(Snapshot((node(),), (early, late), (), (A, B))))
    assert sorted(found) == ["early/main/0", "late/main/0"]
    found = placed(decide(Snapshot((node(count=3),), (early, late), (), (A, B))))
    assert sorted(found) == ["late/main/0"]
    with pytest.raises(InvalidValue, match="cannot be kept from ending"):
        work("both", is_opportunistic=True, is_preemptible=False)


def test_what_has_run_for_its_longest_time_ends_for_good() -> None:
    limited, next_ = work("limited", max_run_s=60.0, count=4), work("next", count=4)
    running = tuple(runs(limited, (0, 1, 2, 3), since_s=10.0))
    decisions = decide(Snapshot((node(),), (limited, next_), running, now_s=69))
    assert evicted(decisions) == []
    decisions = decide(Snapshot((node(),), (limited, next_), running, now_s=70))
    [eviction] = [each for each in decisions if isinstance(each, Eviction)]
    assert (eviction.is_final, eviction.reason) == (True, "it has run for 60 s, and may for 60")
    assert list(placed(decisions)) == ["next/main/0"]


def test_moves_that_make_what_is_free_useful_are_made_within_their_budget() -> None:
    small = [work(f"s{at}", "a") for at in range(2)]
    kept = work("kept", "b", 2, is_preemptible=False)
    wide = [work(f"w{at}", count=4, pools=frozenset({"none"})) for at in range(9)]
    nodes = (node("x"), node("y"), node("z"))
    running = (
        *runs(small[0], (0,), on="x"),
        *runs(small[1], (0,), on="y"),
        *runs(kept, (0, 1), on="z"),
    )
    snapshot = Snapshot(nodes, (*small, kept, *wide), running, (A, B))

    def moves(most: int) -> list[str]:
        decisions = decide(snapshot, settings=CycleSettings(defragment_moves=most))
        assert evicted(decisions) == []
        return moved(decisions)

    assert moves(0) == []
    assert len(moves(1)) == 1
    assert len(moves(9)) == 2


def test_memory_of_a_gpu_is_apart_where_both_are_asked_for() -> None:
    """T4s with 16,000 MiB: much memory with little compute goes with little with much."""
    large = single("large", Shape(0, 0, 1, 100, 14000))
    quick = single("quick", Shape(0, 0, 1, 800, 1000), 1)
    other = single("other", Shape(0, 0, 1, 100, 2000), 2)
    half = single("half", Shape(0, 0, 1, 100), 3)
    decisions = decide(Snapshot((node(count=1),), (large, quick, other, half)))
    assert sorted(placed(decisions)) == ["large/main/0", "quick/main/0"]
    assert {each.reason for each in refused(decisions).values()} == {Reason.GPUS_FULL}
    decisions = decide(Snapshot((node(count=1),), (half, other, quick)))
    assert len(placed(decisions)) == 3


def test_who_takes_a_part_of_a_gpu_has_as_much_of_its_memory() -> None:
    half, large = single("half", Shape(0, 0, 1, 500)), single("large", Shape(0, 0, 1, 10, 8001))
    running = (Running(Task("half", "main", 0), Shape(0, 0, 1, 500), Spot("n", (0,), 500)),)
    snapshot = Snapshot((node(count=1),), (half, large), running)
    assert placed(decide(snapshot, settings=CycleSettings(moves_max=0))) == {}
    fits = single("large", Shape(0, 0, 1, 10, 8000))
    assert len(placed(decide(replace(snapshot, workloads=(half, fits))))) == 1
    never = single("large", Shape(0, 0, 1, 10, 16001))
    [refusal] = refused(decide(replace(snapshot, workloads=(half, never)))).values()
    assert (refusal.reason, refusal.is_final) == (Reason.GPU_SIZE, True)


def test_a_task_that_may_have_some_gpus_only_gets_one_of_these_or_waits() -> None:
    own = frozenset({(node().name, 1), ("elsewhere", 0)})
    found = [work(f"own{at}", company=Affinity(gpus=own), submitted_s=float(at)) for at in range(2)]
    decisions = decide(Snapshot((node(count=3),), (*found, work("any", submitted_s=9.0))))
    assert {task: spot.gpus for task, spot in placed(decisions).items()} == {
        "own0/main/0": (1,),
        "any/main/0": (0,),
    }
    assert refused(decisions)["own1"].reason is Reason.NOT_ALLOWED


def test_such_a_task_takes_back_none_but_these_gpus() -> None:
    own = frozenset({(node().name, 1)})
    low = [work(f"low{gpu}") for gpu in range(2)]
    running = [each for gpu in range(2) for each in runs(low[gpu], (gpu,))]
    high = work("high", company=Affinity(gpus=own), priority=9)
    decisions = decide(Snapshot((node(count=2),), (*low, high), running=tuple(running)))
    assert evicted(decisions) == ["low1/main/0"]
