from __future__ import annotations

from dataclasses import replace

import pytest

from moiety.policy.cycle import decide
from moiety.policy.model.cluster import GpuDevice, Node, Placing, Pool
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.queue.decayed_usage import used_after
from moiety.sim.scenario import after
from tests.unit.policy.build import node, placed, runs, work

DAY_S = 86400.0
NONE = Amounts(gpu_milli=0)
QUEUES = (Queue("d", quota=NONE), Queue("a", "d", NONE), Queue("b", "d", NONE))


def test_use_counts_for_queues_above_and_half_after_a_half_life() -> None:
    job = work("w", "a", 2)
    idle = work("idle", "a", is_opportunistic=True)
    running = (*runs(job, (0, 1)), *runs(idle, (2,)))
    snapshot = Snapshot((node(),), (job, idle), running, QUEUES)
    used = used_after(snapshot, DAY_S, DAY_S)
    assert used == {"d": 1000, "a": 1000, "b": 0}
    later = replace(snapshot, workloads=(), running=(), used=used)
    assert used_after(later, DAY_S, DAY_S) == {"d": 500, "a": 500, "b": 0}


def test_who_used_much_of_late_has_less_of_the_surplus() -> None:
    jobs = tuple(work(f"{queue}{at}", queue) for queue in "ab" for at in range(4))
    snapshot = Snapshot((node(),), jobs, (), QUEUES)
    assert sorted(each[0] for each in placed(decide(snapshot))) == ["a", "a", "b", "b"]
    used = {"d": 4000.0, "a": 4000.0, "b": 0.0}
    found = placed(decide(replace(snapshot, used=used)))
    assert sorted(each[0] for each in found) == ["b"] * 4
    for _ in range(60):  # it fades
        used = used_after(replace(snapshot, used=used), DAY_S, DAY_S)
    found = placed(decide(replace(snapshot, used=used)))
    assert sorted(each[0] for each in found) == ["a", "a", "b", "b"]


def test_a_scenario_counts_use_if_it_is_told_to() -> None:
    job = work("w", "a", 2)
    snapshot = Snapshot((node(),), (job,), tuple(runs(job, (0, 1))), QUEUES)
    assert after(snapshot, []).used == {}
    assert after(snapshot, [], half_life_s=1.0).used["a"] == pytest.approx(1000)


def test_where_gpus_are_measured_the_least_busy_is_taken() -> None:
    busy = tuple(GpuDevice(at, utilisation=use) for at, use in enumerate((0.9, 0.2, 0.5)))
    nodes = (Node("n", 64000, 1024, busy, "T4", 16000),)
    snapshot = Snapshot(nodes, (work("w", count=0.5),), pools=(Pool(placing=Placing.SPREAD),))
    assert placed(decide(snapshot))["w/main/0"].gpus == (1,)
