"""Why a workload waits, until when, which are ahead, and which would have to end or move for it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sized
from dataclasses import dataclass, field, replace
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import Cycle
from moiety.policy.cycle_settings import USUAL, CycleSettings
from moiety.policy.explain.durations import duration
from moiety.policy.explain.forecast import Start, expected_start
from moiety.policy.memory import PolicyMemory
from moiety.policy.model.decisions import Decision, Eviction, Move, Placement, PlacementRefusal
from moiety.policy.model.snapshot import Snapshot, Spot, Task
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.preempt import reclaim
from moiety.policy.preempt.preemption_trial import EndedUnit
from moiety.policy.preempt.victims import Victims
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.queue_order import QueueOrder

MOVES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one workload."""

    workload: str
    status: str
    """`runs`, `begins` (now), `waits`, `never` (does not fit, even if nothing else ran), or `ends`
    (for good)."""
    sentence: str
    numbers: dict[str, int] = field(default_factory=dict)
    spots: tuple[tuple[Task, Spot], ...] = ()
    """Where it runs or begins."""
    ahead: tuple[str, ...] = ()
    """Workloads that wait too and are served before it."""
    end: tuple[Task, ...] = ()
    """Tasks that end for it, or would have to, the least harmful first."""
    move: tuple[Task, ...] = ()
    """Tasks that move for it, or could, so that no task would have to end."""
    start: Start | None = None


Say = Callable[[Task], str]
Tasks = tuple[Task, ...]


def explain(
    snapshot: Snapshot,
    name: str,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    say: Say = str,
    memory: PolicyMemory | None = None,
) -> Explanation:
    """What the next cycle does about a workload, and why; raises InvalidValue for unknown names.

    The expected start is what the engine decides ahead of time (`forecast.py`). It leaves out work
    that has not come yet; a `memory` has learned how much that matters. `say` gives the names by
    which tasks are called.
    """
    workload = next((each for each in snapshot.workloads if each.name == name), None)
    if workload is None:
        raise InvalidValue(f"there is no workload {name}", _names(snapshot))
    cycle = Cycle(snapshot, known, settings, memory=memory)
    cycle.run()
    decisions = cycle.decisions()
    began = [each for each in decisions if isinstance(each, Placement) and each.task[0] == name]
    own_end = [each for each in decisions if isinstance(each, Eviction) and each.task[0] == name]
    if own_end and not cycle.state.tasks_of.get(name):
        status = "ends" if own_end[0].is_final else "waits"
        text = f"{name} ends{' for good' * own_end[0].is_final}: {own_end[0].reason}"
        return Explanation(name, status, text, end=tuple(each.task for each in own_end))
    new = {each.task for each in began}
    stays = _stays(cycle, name, new)
    if began and not stays:
        return _begins(cycle, workload, decisions, began, say)
    refusal = next(
        (r for r in decisions if isinstance(r, PlacementRefusal) and r.task[0] == name), None
    )
    if not stays:
        assert refusal
        return _waits(cycle, workload, refusal, say, memory)
    goes = "goes on" if own_end else "runs"
    text = f"{name} {goes} with {len(stays)} of {workload.tasks} tasks"
    ends = tuple(each.task for each in own_end)
    if ends:
        text += f"; {_list(ends, say)} {_do(ends, 'end')}: {own_end[0].reason}"
    if began:
        text += f"; {len(began)} more {_do(began, 'begin')} now on {_nodes(began)}"
        costs = _costs(cycle, name, decisions)
        text += _at_their_cost(*costs, say)
        spots = (*stays, *((each.task, each.spot) for each in began))
        return Explanation(name, "runs", text, spots=spots, end=(*ends, *costs[0]), move=costs[1])
    if refusal and not ends:
        text += f"; for more of them, {refusal.text}"
    return Explanation(name, "runs", text, spots=stays, end=ends)


def _stays(cycle: Cycle, name: str, new: Container[Task]) -> tuple[tuple[Task, Spot], ...]:
    """The tasks of a workload that run and go on, where they are after the cycle."""
    state = cycle.state
    return tuple(
        (task, state.pools.spot(state.seated[task].place))
        for task in sorted(state.tasks_of.get(name, ()))
        if task not in new
    )


def what_if(
    snapshot: Snapshot,
    workload: Workload,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    say: Say = str,
    memory: PolicyMemory | None = None,
) -> Explanation:
    """Explain a workload that is not in the snapshot, as if it were submitted now."""
    coming = replace(workload, submitted_s=snapshot.now_s)
    there = replace(snapshot, workloads=(*snapshot.workloads, coming))
    return explain(there, workload.name, known, settings, say, memory)


def _names(snapshot: Snapshot) -> str:
    names = [workload.name for workload in snapshot.workloads]
    return "one of " + ", ".join(names[:10]) + (" ..." if len(names) > 10 else "")


def _begins(
    cycle: Cycle, workload: Workload, decisions: list[Decision], began: list[Placement], say: Say
) -> Explanation:
    name = workload.name
    ends, moves = _costs(cycle, name, decisions)
    text = f"{name} begins now with {len(began)} of {workload.tasks} tasks on {_nodes(began)}"
    text += _at_their_cost(ends, moves, say)
    spots = tuple((each.task, each.spot) for each in began)
    return Explanation(
        name, "begins", text, spots=spots, end=ends, move=moves, start=Start(0, 0, 0)
    )


def _costs(cycle: Cycle, name: str, decisions: list[Decision]) -> tuple[Tasks, Tasks]:
    """The tasks that end, and those that move, for a workload."""
    ends = (each for each in decisions if isinstance(each, Eviction) and each.for_workload == name)
    moves = (
        each for each in decisions if isinstance(each, Move) and cycle.why[each.task][1] == name
    )
    return tuple(each.task for each in ends), tuple(each.task for each in moves)


def _at_their_cost(ends: Tasks, moves: Tasks, say: Say) -> str:
    text = f"; {_list(ends, say)} {_do(ends, 'end')} for it" if ends else ""
    return text + (f"; {_list(moves, say)} {_do(moves, 'move')}" if moves else "")


def _nodes(began: list[Placement]) -> str:
    nodes = sorted({each.spot.node for each in began})
    return ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")


def _do(those: Sized, verb: str) -> str:
    """A verb in the form for one or for several."""
    return verb + "s" * (len(those) == 1)


def _waits(
    cycle: Cycle,
    workload: Workload,
    refusal: PlacementRefusal,
    say: Say,
    memory: PolicyMemory | None,
) -> Explanation:
    state, name = cycle.state, workload.name
    piece = next_piece(state, workload)
    assert piece
    numbers = dict(refusal.numbers)
    if refusal.is_final:
        return Explanation(name, "never", f"{name} cannot run here: {refusal.text}", numbers)
    ahead = _ahead(cycle, piece)
    leavers = Victims.current(state, 0.0)
    move = _would_move(state, piece, leavers)
    end = () if move else _would_end(state, piece, leavers)
    start = _start(cycle, piece, memory)
    text = f"{name} waits: {refusal.text}"
    if ahead:
        text += f"; {len(ahead)} {'is' if len(ahead) == 1 else 'are'} ahead of it"
    if move:
        text += f"; it would have room if {_list(move, say)} moved"
    elif end:
        text += f"; it would have room if {_list(end, say)} ended"
    text += f"; {_expected(start)}"
    return Explanation(name, "waits", text, numbers, (), ahead, end, move, start)


def _list(tasks: tuple[Task, ...], say: Say) -> str:
    shown = ", ".join(map(say, tasks[:3]))
    return shown if len(tasks) <= 3 else f"{shown} and {len(tasks) - 3} more"


def _expected(start: Start) -> str:
    """Until when it waits, in words."""
    if start.expected_s is None:
        if start.earliest_s is None:
            return "when it starts cannot be foreseen"
        return f"it starts in {duration(start.earliest_s)} at the earliest"
    likely = f"most likely {duration(start.expected_s)}"
    if start.earliest_s is None or start.latest_s is None:
        return f"it starts in an unknown time, {likely}"
    earliest, latest = duration(start.earliest_s), duration(start.latest_s)
    if earliest == latest:
        return f"it starts in {earliest}"
    return f"it starts in {earliest} to {latest}, {likely}"


def _ahead(cycle: Cycle, piece: GangPart) -> tuple[str, ...]:
    said = (each for each in cycle.remarks() if isinstance(each, PlacementRefusal))
    never = {refusal.task.workload for refusal in said if refusal.is_final}
    found: list[str] = []
    for served in QueueOrder(cycle.state, cycle.ended | never).serve(lambda _: None):
        if served.workload.name == piece.workload.name:
            break
        found.append(served.workload.name)
    return tuple(found)


def _would_move(state: ClusterState, piece: GangPart, leavers: Victims) -> tuple[Task, ...]:
    mark = state.mark()
    if not state.may_start(piece.workload, piece.amounts):
        return ()
    plan = reclaim.consolidate(state, piece, leavers, MOVES_MAX)
    return _kept_out(state, plan, mark)


def _would_end(state: ClusterState, piece: GangPart, leavers: Victims) -> tuple[Task, ...]:
    """The tasks that would have to end, by the order of harm alone, without regard to rights."""
    mark = state.mark()
    if not state.may_start(piece.workload, piece.amounts):
        return ()
    plan = reclaim.end_any(state, piece, leavers, MOVES_MAX)
    return _kept_out(state, plan, mark)


def _kept_out(state: ClusterState, plan: list[EndedUnit] | None, mark: int) -> tuple[Task, ...]:
    """The tasks that a plan ends or moves; the plan is undone."""
    tasks = [
        task
        for ended in plan or ()
        for task, seated in zip(ended.unit.tasks, ended.seated, strict=True)
        if state.seated.get(task) != seated
    ]
    state.back(mark)
    return tuple(tasks)


def _start(cycle: Cycle, piece: GangPart, memory: PolicyMemory | None) -> Start:
    state, name = cycle.state, piece.workload.name
    found = expected_start(state.snapshot, name, cycle.known, cycle.settings, memory)
    comes = cycle.scaled.comes.get(name)
    if comes is None:
        return found
    # nodes start for it, and it begins there if nothing ends before
    node_s = comes[1] - state.snapshot.now_s
    at = (found.expected_s, found.earliest_s, found.latest_s)
    return Start(*(node_s if at_s is None else min(at_s, node_s) for at_s in at))
