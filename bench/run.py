"""`make bench`: measure every figure, print the table, keep it in results/latest.json."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import (
    agent,
    arena,
    command,
    coverage,
    decisions,
    equal_users,
    faults,
    fit,
    fit_short,
    growth,
    handoff,
    handoff_floor,
    interleave,
    jain,
    kube,
    kube_webhook,
    kubeshare,
    latency,
    makespan,
    makespan_big,
    makespan_turns,
    many_gpus,
    overcommit,
    overhead,
    oversize,
    policy_above_fgd,
    policy_allocation,
    policy_cycle,
    policy_fidelity,
    policy_jct,
    policy_scenarios,
    policy_speed,
    policy_starts,
    pool,
    pool_day,
    pytorch,
    serving,
    shares,
    side_by_side,
    slurm,
    suspend,
    swap,
    upgrade,
    wake,
)
from bench.figure import RESULTS, Figure, save, table

SCRIPTS: dict[str, Callable[[], list[Figure]]] = {
    "agent": agent.measure,
    "command": command.measure,
    "overhead": overhead.measure,
    "decisions": decisions.measure,
    "makespan": makespan.measure,
    "shares": shares.measure,
    "side_by_side": side_by_side.measure,
    "equal_users": equal_users.measure,
    "fit": fit.measure,
    "fit_short": fit_short.measure,
    "kubeshare": kubeshare.measure,
    "makespan_big": makespan_big.measure,
    "many_gpus": many_gpus.measure,
    "makespan_turns": makespan_turns.measure,
    "interleave": interleave.measure,
    "latency": latency.measure,
    "jain": jain.measure,
    "suspend": suspend.measure,
    "swap": swap.measure,
    "serving": serving.measure,
    "wake": wake.measure,
    "arena": arena.measure,
    "handoff": handoff.measure,
    "handoff_floor": handoff_floor.measure,
    "overcommit": overcommit.measure,
    "oversize": oversize.measure,
    "coverage": coverage.measure,
    "pytorch": pytorch.measure,
    "faults": faults.measure,
    "growth": growth.measure,
    "pool": pool.measure,
    "pool_day": pool_day.measure,
    "slurm": slurm.measure,
    "upgrade": upgrade.measure,
    "kube": kube.measure,
    "kube_webhook": kube_webhook.measure,
    "policy_fidelity": policy_fidelity.measure,
    "policy_allocation": policy_allocation.measure,
    "policy_above_fgd": policy_above_fgd.measure,
    "policy_speed": policy_speed.measure,
    "policy_starts": policy_starts.measure,
    "policy_cycle": policy_cycle.measure,
    "policy_scenarios": policy_scenarios.measure,
    "policy_jct": policy_jct.measure,
}
PARTS: dict[str, Callable[[], list[Figure]]] = {
    "faults_virtual": faults.virtual,
    "faults_lies": faults.lies,
    "faults_real": faults.real,
}
"""Of scripts that take long, to be measured by themselves."""


def main() -> int:
    """Run all scripts, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", choices=[*SCRIPTS, *PARTS, []], metavar="SCRIPT")
    chosen = parser.parse_args().scripts or list(SCRIPTS)
    figures = []
    for name in chosen:
        print(f"bench: {name} ...", flush=True)
        found = {**SCRIPTS, **PARTS}[name]()
        save(found)  # at once: what comes after it may fail
        figures += found
    print(table(figures))
    print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
