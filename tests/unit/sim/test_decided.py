"""The policy engine decides every replay, and nothing else in `sim` does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import moiety.sim
from moiety.model.errors import InternalError
from moiety.policy.model.cluster import Node, Pool, gpus
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape
from moiety.sim import engine, task_engine
from moiety.sim.capacity_nodes import needed_nodes
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.live_pools import live_on_pools
from moiety.sim.outcome import ORDERS, run_gangs
from moiety.sim.replay import ReplaySettings, fill, live
from moiety.sim.results import Result
from moiety.sim.runs import RestartCost
from moiety.sim.trace import Job, Trace

BASELINES = {
    *("moiety.sim.baselines", "moiety.sim.queue_baselines"),
    *("moiety.sim.seats", "moiety.sim.runs", "moiety.sim.world"),
}
"""Orders to compare with, where they place gangs, and the world in which all orders act."""
COUNTS = {"moiety.sim.by_queue", "moiety.sim.fair_use"}
"""They check what was decided, after it was."""
DECIDES = ("gittins_order", "queue_usage", "deficit", "place.placer", "policy.preempt")
"""Parts of policy that only an engine needs."""
TRACE = GangTrace("t", tuple(GangJob(f"g{at}", 1, 60.0 * at, 900.0, "q") for at in range(4)), (8,))
QUEUES = (Queue("q", quota=Amounts(gpu_milli=8000)),)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.ImportFrom) and each.module:
            found |= {f"{each.module}.{name.name}" for name in each.names} | {each.module}
    return found


def test_nothing_else_in_sim_orders_stops_or_counts_quotas() -> None:
    deciding = set()
    for path in sorted(Path(str(moiety.sim.__file__)).parent.glob("*.py")):
        module = f"moiety.sim.{path.stem}"
        if any(part in name for name in imported(path) for part in DECIDES):
            deciding.add(module)
    allowed = {"moiety.sim.scenario", "moiety.sim.queue_file"}  # they carry over, and read
    assert deciding <= COUNTS | BASELINES | allowed
    there = {f"moiety.sim.{path.stem}" for path in Path(str(moiety.sim.__file__)).parent.glob("*")}
    assert there >= BASELINES | COUNTS


@pytest.mark.parametrize("queues", [None, QUEUES], ids=["without queues", "with queues"])
def test_a_file_starts_nothing_that_the_engine_does_not_start(
    monkeypatch: pytest.MonkeyPatch, queues: Sequence[Queue] | None
) -> None:
    def nothing(*_: Any, **__: Any) -> CyclePlan:
        return CyclePlan()

    monkeypatch.setattr(engine, "decide", nothing)
    with pytest.raises(InternalError, match="default starts none"):
        run_gangs(TRACE, "default", RestartCost(), queues=queues)


@pytest.fixture
def starts_nothing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The engine of folders starts nothing; the times at which it was asked."""
    asked: list[float] = []

    def nothing(snapshot: Snapshot, *_: Any, **__: Any) -> CyclePlan:
        asked.append(snapshot.now_s)
        return CyclePlan()

    monkeypatch.setattr(task_engine, "decide", nothing)
    return asked


SHAPE = Shape(1000, 0, 1, 1000)
FOLDER = Trace(
    "t",
    tuple(Node(f"n{at}", 8000, 1024, gpus(2), "T4", pool="cloud") for at in range(2)),
    tuple(Job(f"j{at}", SHAPE, 60.0 * at, 900.0) for at in range(4)),
)
CLOUD = Pool("cloud", is_dynamic=True, template=FOLDER.nodes[0], nodes_max=2, start_s=1.0)
REPLAYS: dict[str, Callable[[], Result | None]] = {
    "fill": lambda: fill(FOLDER, ReplaySettings()),
    "live": lambda: live(FOLDER, ReplaySettings()),
    "pools": lambda: live_on_pools(FOLDER, (CLOUD,), (), ReplaySettings()),
    "capacity": lambda: needed_nodes(FOLDER, 60.0, ReplaySettings()),
}


@pytest.mark.parametrize("name", REPLAYS)
def test_a_folder_starts_nothing_that_the_engine_does_not_start(
    name: str, starts_nothing: list[float]
) -> None:
    result = REPLAYS[name]()
    assert result
    assert result.placed == 0
    assert result.refused == ({"not-yet": result.arrived} if name == "fill" else {})
    assert len(starts_nothing) >= len(FOLDER.jobs)
    if result.live:
        assert [each.started for each in result.live.pools] == [0] * (name == "pools")


@pytest.mark.parametrize("name", REPLAYS)
def test_a_folder_starts_what_the_engine_starts(name: str) -> None:
    result = REPLAYS[name]()
    assert result
    assert result.placed == len(FOLDER.jobs)


def test_the_other_orders_are_baselines() -> None:
    assert ORDERS[0] == "default"
    assert set(ORDERS[1:]) == {"fifo", "backfill", "sjf", "srtf", "srsf", "las", "tiresias"}
