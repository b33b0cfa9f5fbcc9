"""What queues of a history have and wait for, and whether that was what they were promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.sim.history_outcome import run_history
from moiety.sim.planners import planner_of
from moiety.sim.world import World
from moiety.sim.world_moment import WorldMoment, moment_of
from tests.unit.sim.histories import COST, history

QUEUES = "name,quota_gpus\na,8\nb,8\n"
COLUMNS = "name,gpus,gpu_milli,tasks,min_tasks,queue,opportunistic,submitted_s,duration_s\n"


def test_parts_of_gpus_and_missing_tasks_count_and_opportunists_do_not(tmp_path: Path) -> None:
    jobs = (
        "half,1,500,1,1,a,no,0,900\n"
        "grows,2,1000,6,2,a,no,0,900\n"
        "guest,1,1000,1,1,b,yes,0,900\n"
        "wide,8,1000,2,2,b,no,10,900\n"
    )
    trace = history(tmp_path, COLUMNS + jobs, queues=QUEUES)
    seen: dict[float, WorldMoment] = {}

    def watch(world: World) -> None:
        seen[world.now_s] = moment_of(world)

    World(trace, planner_of("fifo", trace.mix, has_queues=True), COST, watch=watch).run()
    first, then, last = seen[0], seen[10], seen[max(seen)]
    assert first.gpus == 16
    assert (first.held, first.asked) == ({"a": 12.5, "b": 0}, {"a": 0, "b": 0})
    assert not first.waiting
    assert (then.asked["b"], dict(then.kinds)) == (16, {("b", 16): 1})
    assert [run.name for run in then.waiting] == ["wide"]
    assert last.held == {"a": 0, "b": 0}


@pytest.mark.parametrize(("order", "is_kept"), [("default", True), ("fifo", False)])
def test_a_history_tells_whether_quotas_were_kept_and_how_equal_the_parts_were(
    tmp_path: Path, order: str, is_kept: bool
) -> None:
    jobs = "".join(f"b{at},8,1000,1,1,b,no,0,9000\n" for at in range(4))
    jobs += "a0,8,1000,1,1,a,no,60,900\n"
    found = run_history(history(tmp_path, COLUMNS + jobs, queues=QUEUES), order, COST).outcome
    assert (found.quota_broken == 0) is is_kept
    assert found.jain_of_due is not None
    assert (found.jain_of_due > 0.99) is is_kept
    assert found.jain_of_due_over_run is not None


def test_without_queues_nothing_was_promised(tmp_path: Path) -> None:
    jobs = "x,8,1000,1,1,a,no,0,900\ny,8,1000,1,1,b,no,60,900\n"
    found = run_history(history(tmp_path, COLUMNS + jobs), "default", COST).outcome
    assert (found.quota_broken, found.jain_of_due) == (None, None)
