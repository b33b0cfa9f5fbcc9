"""What the documentation promises of queues, case by case, and whatever things are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from moiety.sim.scenario import run_all
from moiety.sim.scenario_file import read_scenarios
from tests.unit.sim.principles_file import (
    Case,
    doubled,
    principles,
    renamed,
    reordered,
    with_strangers,
    without_defaults,
    written,
)

ALL = principles()
CHANGES: dict[str, Callable[[Case], Case]] = {
    "as it is": lambda case: case,
    "renamed": lambda case: renamed(case, Random(1)),
    "renamed again": lambda case: renamed(case, Random(2)),
    "reordered": lambda case: reordered(case, Random(3)),
    "with strangers": with_strangers,
    "without defaults": without_defaults,
    "doubled": doubled,
}


@pytest.mark.parametrize("change", CHANGES)
def test_principles_hold(tmp_path: Path, change: str) -> None:
    cases = [
        CHANGES[change](each.case) for each in ALL if not (change == "doubled" and each.is_fixed)
    ]
    outcomes = run_all(read_scenarios(written(tmp_path / "cases.json", cases)), "")
    assert len(outcomes) == len(cases) >= 80
    assert {each.name: each.problems for each in outcomes if not each.passed} == {}
