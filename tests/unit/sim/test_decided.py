"""Which replays the policy engine decides, and that nothing else in `sim` does.

`NOT_YET` is the list of what still decides beside the engine; it only becomes shorter.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import moiety.sim
from moiety.model.errors import InternalError
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.queues import Amounts, Queue
from moiety.sim import engine
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.outcome import ORDERS, run_gangs
from moiety.sim.runs import RestartCost

NOT_YET = {
    "moiety.sim.capacity_nodes": "folders: how many nodes hold a trace",
    "moiety.sim.live_pools": "folders with pools that grow",
    "moiety.sim.replay": "folders: fill, and live",
}
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
    assert deciding - COUNTS - BASELINES - allowed <= set(NOT_YET)
    there = {f"moiety.sim.{path.stem}" for path in Path(str(moiety.sim.__file__)).parent.glob("*")}
    assert set(NOT_YET) | BASELINES | COUNTS <= there


@pytest.mark.parametrize("queues", [None, QUEUES], ids=["without queues", "with queues"])
def test_a_file_starts_nothing_that_the_engine_does_not_start(
    monkeypatch: pytest.MonkeyPatch, queues: Sequence[Queue] | None
) -> None:
    def nothing(*_: Any, **__: Any) -> CyclePlan:
        return CyclePlan()

    monkeypatch.setattr(engine, "decide", nothing)
    with pytest.raises(InternalError, match="default starts none"):
        run_gangs(TRACE, "default", RestartCost(), queues=queues)


def test_the_other_orders_are_baselines() -> None:
    assert ORDERS[0] == "default"
    assert set(ORDERS[1:]) == {"fifo", "backfill", "sjf", "srtf", "srsf", "las", "tiresias"}
