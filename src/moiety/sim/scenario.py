"""Runs scenarios: cycle after cycle on a small cluster, until no decision should change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moiety.model.errors import MoietyError, ScenarioInvalid
from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.decisions import (
    Decision,
    Eviction,
    Growth,
    Move,
    Placement,
    PlacementRefusal,
    Release,
)
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.place.placement_refusals import WORDS
from moiety.policy.queue.decayed_usage import used_after
from moiety.policy.queue.deficit import credit_after
from moiety.sim.scaling import scaled
from moiety.sim.scenario_file import Expected, RefusedCase, Scenario

CYCLES: Final = 2
"""The expected state is reached within this number of cycles."""
QUIET_CYCLES: Final = 5
"""The expected state stays for this number of cycles."""
CYCLE_S: Final = 1.0
SETTINGS: Final = CycleSettings(reservations=0)
"""Times of creation are only an order here, not the length of a wait: no reservations."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case."""

    name: str
    passed: bool
    tasks: Mapping[str, Mapping[str, str | None]]
    """Status and node of each task in the end."""
    decisions: Sequence[Mapping[str, Any]]
    """The decisions of all cycles, each with the number of its cycle."""
    problems: Sequence[str] = ()
    """Why the case did not pass."""
    notes: Sequence[str] = ()
    error: ScenarioInvalid | None = None


def run_scenario(case: Scenario | RefusedCase) -> Outcome:
    """Run two cycles and five more; check the expected state after both, and that none loops."""
    if isinstance(case, RefusedCase):
        return Outcome(case.name, False, {}, [], [case.error.what], error=case.error)
    names = {task: shown for shown, task in case.tasks.items()}
    snapshot = case.snapshot
    told: list[dict[str, Any]] = []
    seen = [_places(snapshot)]
    problems: list[str] = []
    for cycle in range(1, CYCLES + QUIET_CYCLES + 1):
        decisions = decide(snapshot, settings=SETTINGS)
        told += [_told(cycle, each, names, case) for each in decisions]
        snapshot = after(snapshot, decisions)
        places = _places(snapshot)
        if places != seen[-1] and places in seen and "loop" not in "".join(problems):
            problems.append(f"a loop: cycle {cycle} leads back to where things were before")
        seen.append(places)
        if cycle in (CYCLES, CYCLES + QUIET_CYCLES):
            problems += _missed(case, places, f"after {cycle} cycles")
    tasks: dict[str, Mapping[str, str | None]] = {}
    for shown, task in case.tasks.items():
        spot = places.get(task)
        status = "running" if spot else "pending"
        tasks[shown] = {"status": status, "node": spot.node if spot else None}
    return Outcome(case.name, not problems, tasks, _once(told), problems, case.notes)


def run_all(cases: Sequence[Scenario | RefusedCase], path: str) -> list[Outcome]:
    """The outcomes of all cases; a case that cannot be run has its error in its outcome."""
    outcomes = []
    for at, case in enumerate(cases):
        try:
            outcomes.append(run_scenario(case))
        except MoietyError as error:
            refused = RefusedCase(case.name, ScenarioInvalid(path, f"cases[{at}]", error.what))
            outcomes.append(run_scenario(refused))
    return outcomes


def after(
    snapshot: Snapshot, decisions: Sequence[Decision], half_life_s: float | None = None
) -> Snapshot:
    """The cluster after all decisions have been carried out.

    With `half_life_s`, the GPUs that queues have count into their decayed usage, and GPUs that
    queues have less than their part count as their deficit.
    """
    now = snapshot.now_s + CYCLE_S
    running = {each.task: each for each in snapshot.running}
    shapes = {
        (workload.name, subgroup.name): subgroup.shape
        for workload in snapshot.workloads
        for subgroup in workload.subgroups
    }
    over: set[str] = set()
    exchanged_s = dict(snapshot.exchanged_s)
    for each in decisions:
        if isinstance(each, Growth | Release):
            continue
        task = each.task
        if isinstance(each, Eviction):
            del running[task]
            if each.is_final:
                over.add(task.workload)
            if each.exchange:
                exchanged_s[each.exchange] = snapshot.now_s
        elif isinstance(each, Move):
            running[task] = replace(running[task], spot=each.target)
        elif isinstance(each, Placement):
            shape = shapes[task.workload, task.subgroup]
            running[task] = Running(task, shape, each.spot, snapshot.now_s)
    workloads = tuple(each for each in snapshot.workloads if each.name not in over)
    then = replace(
        snapshot,
        workloads=workloads,
        running=tuple(running.values()),
        now_s=now,
        exchanged_s=exchanged_s,
    )
    then = scaled(then, decisions)
    if half_life_s is None:
        return then
    return replace(
        then,
        used=used_after(then, CYCLE_S, half_life_s),
        credit=credit_after(then, CYCLE_S, half_life_s),
    )


def _places(snapshot: Snapshot) -> dict[Task, Spot]:
    return {each.task: each.spot for each in snapshot.running}


def _missed(case: Scenario, places: Mapping[Task, Spot], when: str) -> list[str]:
    missed = []
    for shown, expected in case.expected.items():
        task = case.tasks.get(shown)
        if task is None:
            missed.append(f"{shown} is expected to be {expected.status}, but there is no such task")
            continue
        spot = places.get(task)
        is_so = Expected("running", spot.node) if spot else Expected("pending")
        if is_so.status != expected.status:
            missed.append(f"{shown} is {is_so.status}, not {expected.status}, {when}")
        elif expected.node not in (None, is_so.node, case.machines.get(is_so.node or "")):
            missed.append(f"{shown} is on {is_so.node}, not on {expected.node}, {when}")
    return missed


def _once(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without refusals that are repeated from cycle to cycle."""
    seen: set[tuple[str, str]] = set()
    found = []
    for each in told:
        if each["kind"] == "refusal":
            key = each["task"], each["reason"]
            if key in seen:
                continue
            seen.add(key)
        found.append(each)
    return found


def _told(
    cycle: int, decision: Decision, names: Mapping[Task, str], case: Scenario
) -> dict[str, Any]:
    told: dict[str, Any]
    if isinstance(decision, Growth):
        told = {"kind": "growth", "pool": decision.pool, "nodes": decision.nodes}
        return {"cycle": cycle, **told, "for": decision.for_workloads, "reason": decision.text}
    if isinstance(decision, Release):
        told = {"kind": "release", "pool": decision.pool, "node": decision.node}
        return {"cycle": cycle, **told, "reason": decision.text}
    task = decision.task
    told = {"cycle": cycle, "task": names.get(task, task.workload)}
    if isinstance(decision, Placement):
        spot = decision.spot
        return {**told, "kind": "placement", "node": spot.node, "gpus": list(spot.gpus)}
    if isinstance(decision, Eviction):
        reason, other = decision.reason, decision.for_workload
        if other is None and not decision.is_final:  # it lacks members, as the case has it
            reason = case.incomplete.get(task.workload, reason)
        gone = {"node": decision.spot.node, "reason": reason, "for": other}
        return {**told, "kind": "eviction", **gone}
    if isinstance(decision, Move):
        target = {"node": decision.target.node, "gpus": list(decision.target.gpus)}
        source = {"from_node": decision.source.node, "from_gpus": list(decision.source.gpus)}
        return {**told, "kind": "move", **target, **source, "reason": decision.reason}
    reason = case.incomplete.get(task.workload) or _why(decision)
    return {**told, "kind": "refusal", "reason": reason}


def _why(refusal: PlacementRefusal) -> str:
    """Its text, without the shape: host memory of a scenario is in bytes, not in MiB."""
    counts = [
        words.format(count=refusal.numbers[reason])
        for reason, words in WORDS.items()
        if str(reason) in refusal.numbers
    ]
    if counts:
        return f"of the nodes, {', '.join(counts)}"
    if "wanted_memory_mib" in refusal.numbers:
        return refusal.text.replace(" MiB of memory", " bytes of memory")
    return refusal.text
