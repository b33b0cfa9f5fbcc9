"""How many of another scheduler's own cases come out as that scheduler promises."""

from __future__ import annotations

from bench.figure import Figure
from bench.policy_traces import OPENB
from moiety.sim.scenario import run_all
from moiety.sim.scenario_file import read_scenarios

SCENARIOS = OPENB.parent / "scenarios" / "dev.json"
FIRST_COME_FIRST_SERVED = 0.4
"""Of the same cases, as the data's description has it."""


def measure() -> list[Figure]:
    """One figure."""
    if not SCENARIOS.exists():
        print(f"bench: the scenarios are not in {SCENARIOS}: MOIETY_DATA says where else")
        return []
    outcomes = run_all(read_scenarios(SCENARIOS), str(SCENARIOS))
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    return [
        Figure(
            "policy_scenarios_passed",
            round(1 - len(failed) / len(outcomes), 4),
            "",
            bar=0.95,
            better="higher",
            device="CPU",
            samples=len(outcomes),
            baseline=FIRST_COME_FIRST_SERVED,
            note="baseline: first come, first served; not passed: " + ("; ".join(failed) or "none"),
        )
    ]
