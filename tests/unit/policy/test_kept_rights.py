"""What is found of rights once and kept: the same as if it were found anew for each unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from moiety.policy.cycle import Cycle, decide
from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.decisions import CyclePlan, Eviction
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.policy.preempt.reclaim import Taking
from moiety.policy.preempt.rights import ReclaimCheck
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.state.gang_parts import next_piece
from moiety.policy.state.gang_start import start_piece
from tests.unit.policy.clusters import LEAVES, cluster

STEPS = 25
NODES = 6


@pytest.mark.parametrize("seed", range(6))
def test_rights_are_those_that_are_found_anew(seed: int) -> None:
    random = Random(seed)
    cycle = Cycle(cluster(seed, jobs=60))
    cycle.run()
    state = cycle.state
    waits = [next_piece(state, state.workloads[name]) for name in sorted(state.unmet)]
    pieces = [piece for piece in waits if piece and not piece.workload.is_opportunistic]
    kept = [(piece, ReclaimCheck(state, piece)) for piece in random.sample(pieces, 6)]
    rights = 0
    for _ in range(STEPS):
        leavers = Victims.current(state, 0.0)
        for piece, right in kept:
            anew = ReclaimCheck(state, piece)
            others = [queue for queue in LEAVES if queue != piece.workload.queue]
            found = [queue for queue in others if anew.could(queue)]
            assert right.open_queues(others) == anew.open_queues(others) == found
            for queue in found:
                some = leavers.of(queue)[:4]
                assert [right.reaches(each) for each in some] == [*map(anew.reaches, some)]
                assert right.may_open(queue)
            rights += len(found)
        name = random.choice(sorted(state.seated)).workload
        for task in list(state.tasks_of[name]):
            state.stop(task)
        for piece in random.sample(pieces, 3):
            if piece.workload.name in state.unmet and not state.tasks_of.get(piece.workload.name):
                start_piece(state, piece)
    assert rights


def full(seed: int) -> Snapshot:
    """Two queues have all GPUs with small jobs; gangs of a third one are due half of them."""
    random = Random(seed)
    one = Shape(4000, 16_384, 1, 1000)
    nodes = tuple(
        Node(f"n{at}", 128_000, 1_048_576, gpus(8), "H100", 81_920) for at in range(NODES)
    )
    jobs, running = [], []
    for at in range(NODES * 8):
        name = f"j{at:02}"
        jobs.append(
            Workload(name, (Subgroup("main", one),), random.choice("ab"), submitted_s=float(at))
        )
        spot = Spot(f"n{at % NODES}", (at // NODES,), 1000)
        running.append(Running(Task(name, "main", 0), one, spot, random.uniform(0, 99)))
    waits = [
        Workload(
            f"w{at}",
            (Subgroup("main", Shape(1000, 1000, size, 1000), tasks, tasks),),
            "c",
            submitted_s=100.0 + at,
        )
        for at, (size, tasks) in enumerate(((8, 1), (2, 1), (4, 2), (8, 2)))
    ]
    quotas = {"a": 6, "b": 18, "c": 24}
    queues = tuple(Queue(name, quota=Amounts(gpu_milli=n * 1000)) for name, n in quotas.items())
    return Snapshot(nodes, (*jobs, *waits), tuple(running), queues, now_s=200.0)


def test_units_that_are_too_few_are_not_tried_and_plans_stay_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[bool] = []
    could_free = Taking.could_free

    def noted(self: Taking, right: ReclaimCheck, of: Callable[[str], Sequence[VictimUnit]]) -> bool:
        found.append(could_free(self, right, of))
        return found[-1]

    def plans() -> list[CyclePlan]:
        return [decide(full(seed)) for seed in range(4)]

    monkeypatch.setattr("moiety.policy.preempt.reclaim.IN_ORDER_MAX", 6)
    monkeypatch.setattr(Taking, "could_free", noted)
    bounded = plans()
    assert {True, False} == set(found)
    monkeypatch.setattr(Taking, "could_free", lambda *_: True)
    assert list(map(list, plans())) == list(map(list, bounded))
    assert all(any(isinstance(each, Eviction) for each in plan) for plan in bounded)
