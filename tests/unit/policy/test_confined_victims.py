"""Room on named GPUs is made there, whoever yields first elsewhere."""

from __future__ import annotations

import pytest

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Affinity
from tests.unit.policy.build import evicted, node, placed, runs, work

DUE = Queue("due", quota=Amounts(gpu_milli=1000))
SPARE = Queue("spare", quota=Amounts(gpu_milli=0))
NO_MOVES = CycleSettings(moves_max=0)


@pytest.mark.parametrize("gpu", range(4))
def test_another_queue_gives_back_the_named_gpu_and_no_other(gpu: int) -> None:
    theirs = [work(f"s{at}", "spare", submitted_s=float(at)) for at in range(4)]
    begun = [runs(each, (at,), since_s=float(at))[0] for at, each in enumerate(theirs)]
    mine = work("mine", "due", company=Affinity(gpus=frozenset({("n", gpu)})))
    seen = Snapshot((node(),), (*theirs, mine), tuple(begun), (DUE, SPARE), now_s=9000.0)
    decided = decide(seen, settings=NO_MOVES)
    assert evicted(decided) == [f"s{gpu}/main/0"]
    assert placed(decided)["mine/main/0"].gpus == (gpu,)


@pytest.mark.parametrize("gpu", range(2))
def test_lower_priority_yields_on_the_named_node(gpu: int) -> None:
    low = [work(f"low{at}", "due", count=2) for at in range(2)]
    begun = [runs(each, (0, 1), on=f"n{at}")[0] for at, each in enumerate(low)]
    named = Affinity(gpus=frozenset({(f"n{gpu}", 0)}))
    high = work("high", "due", company=named, priority=5)
    nodes = tuple(node(f"n{at}", 2) for at in range(2))
    queue = Queue("due", quota=Amounts(gpu_milli=4000))
    decided = decide(Snapshot(nodes, (*low, high), tuple(begun), (queue,), now_s=9000.0))
    assert evicted(decided) == [f"low{gpu}/main/0"]


def test_nothing_ends_for_a_gpu_that_is_not_there() -> None:
    theirs = work("s", "spare")
    mine = work("mine", "due", company=Affinity(gpus=frozenset({("n", 7), ("gone", 0)})))
    begun = runs(theirs, (0,), since_s=0.0)
    seen = Snapshot((node(count=1),), (theirs, mine), tuple(begun), (DUE, SPARE), now_s=9000.0)
    assert evicted(decide(seen)) == []
