"""Why a workload waits, until when, which are ahead, and which would have to end or move for it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import Cycle
from moiety.policy.cycle_settings import USUAL, CycleSettings
from moiety.policy.estimate.remaining_time import Remaining, remaining, takes_at_most
from moiety.policy.model.decisions import Decision, Eviction, Move, Placement, PlacementRefusal
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Task
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.preempt import reclaim
from moiety.policy.preempt.preemption_trial import EndedUnit
from moiety.policy.preempt.upper_bound import UpperBound
from moiety.policy.preempt.victims import Victims
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.queue_order import QueueOrder

AHEAD_MAX: Final = 200
"""The most workloads ahead that are placed in thought."""
ENDS_MAX: Final = 2000
"""The most ends of tasks that are gone through; after that the start counts as unknown."""
MOVES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Start:
    """When a workload is expected to begin, in seconds from now; None: that cannot be foreseen."""

    expected_s: float | None
    earliest_s: float | None
    """If all tasks in the way end early."""
    latest_s: float | None
    """If they end late."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one workload."""

    workload: str
    status: str
    """`runs`, `begins` (now), `waits`, `never` (does not fit, even if nothing else ran)."""
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


def explain(
    snapshot: Snapshot,
    name: str,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    say: Say = str,
) -> Explanation:
    """What the next cycle does about a workload, and why; raises InvalidValue for unknown names.

    The expected start counts the ends of running tasks and the places of the workloads ahead. It
    leaves out that room could be made meanwhile, so it is rather too late than too early. `say`
    gives the names by which tasks are called.
    """
    workload = next((each for each in snapshot.workloads if each.name == name), None)
    if workload is None:
        raise InvalidValue(f"there is no workload {name}", _names(snapshot))
    cycle = Cycle(snapshot, known, settings)
    cycle.run()
    decisions = cycle.decisions()
    began = [each for each in decisions if isinstance(each, Placement) and each.task[0] == name]
    ran = [(each.task, each.spot) for each in snapshot.running if each.task.workload == name]
    own_end = [each for each in decisions if isinstance(each, Eviction) and each.task[0] == name]
    if began:
        return _begins(cycle, workload, decisions, began, say)
    if own_end:
        text = f"{name} ends: {own_end[0].reason}"
        return Explanation(name, "waits", text, end=tuple(each.task for each in own_end))
    refusal = next(
        (r for r in decisions if isinstance(r, PlacementRefusal) and r.task[0] == name), None
    )
    if ran and (refusal is None or cycle.state.tasks_of.get(name)):
        wanted = f"{len(ran)} of {workload.tasks} tasks"
        text = f"{name} runs with {wanted}"
        if refusal:
            text += f"; for more of them, {refusal.text}"
        return Explanation(name, "runs", text, spots=tuple(ran))
    assert refusal
    return _waits(cycle, workload, refusal, say)


def what_if(
    snapshot: Snapshot,
    workload: Workload,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    say: Say = str,
) -> Explanation:
    """Explain a workload that is not in the snapshot, as if it were submitted now."""
    coming = replace(workload, submitted_s=snapshot.now_s)
    there = replace(snapshot, workloads=(*snapshot.workloads, coming))
    return explain(there, workload.name, known, settings, say)


def _names(snapshot: Snapshot) -> str:
    names = [workload.name for workload in snapshot.workloads]
    return "one of " + ", ".join(names[:10]) + (" ..." if len(names) > 10 else "")


def _begins(
    cycle: Cycle, workload: Workload, decisions: list[Decision], began: list[Placement], say: Say
) -> Explanation:
    name = workload.name
    ends = tuple(
        each.task for each in decisions if isinstance(each, Eviction) and each.for_workload == name
    )
    moves = tuple(
        each.task
        for each in decisions
        if isinstance(each, Move) and cycle.why[each.task][1] == name
    )
    nodes = sorted({each.spot.node for each in began})
    shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    text = f"{name} begins now with {len(began)} of {workload.tasks} tasks on {shown}"
    if ends:
        text += (
            f"; {_list(ends, say)} ends for it"
            if len(ends) == 1
            else f"; {_list(ends, say)} end for it"
        )
    if moves:
        text += f"; {_list(moves, say)} moves" if len(moves) == 1 else f"; {_list(moves, say)} move"
    spots = tuple((each.task, each.spot) for each in began)
    return Explanation(
        name, "begins", text, spots=spots, end=ends, move=moves, start=Start(0, 0, 0)
    )


def _waits(cycle: Cycle, workload: Workload, refusal: PlacementRefusal, say: Say) -> Explanation:
    state, name = cycle.state, workload.name
    piece = next_piece(state, workload)
    assert piece
    numbers = dict(refusal.numbers)
    if refusal.is_final:
        return Explanation(name, "never", f"{name} cannot run here: {refusal.text}", numbers)
    ahead = _ahead(cycle, piece)
    leavers = Victims(state)
    move = _would_move(state, piece, leavers)
    end = () if move else _would_end(state, piece, leavers)
    start = _start(cycle, piece, ahead)
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
    if start.expected_s is None:
        return "when it begins cannot be foreseen"
    latest = "an unknown time" if start.latest_s is None else f"{start.latest_s:.0f} s"
    return (
        f"expected to begin in {start.expected_s:.0f} s "
        f"(between {start.earliest_s or 0:.0f} s and {latest})"
    )


def _ahead(cycle: Cycle, piece: GangPart) -> tuple[str, ...]:
    never = {refusal.task.workload for refusal in cycle.refusals if refusal.is_final}
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


def _start(cycle: Cycle, piece: GangPart, ahead: tuple[str, ...]) -> Start:
    found = [
        _when(cycle, piece, ahead, lambda left: left.expected_s),
        _when(cycle, piece, ahead, lambda left: left.least_s),
        _when(cycle, piece, ahead, lambda left: left.most_s),
    ]
    comes = cycle.scaled.comes.get(piece.workload.name)
    if comes is not None:  # nodes start for it, and it begins there if nothing ends before
        node_s = comes[1] - cycle.state.snapshot.now_s
        found = [node_s if at_s is None else min(at_s, node_s) for at_s in found]
    return Start(*found)


def _when(
    cycle: Cycle, piece: GangPart, ahead: tuple[str, ...], which: Callable[[Remaining], float]
) -> float | None:
    """Seconds until a piece has room, if tasks end by `which` and workloads ahead begin first."""
    state, settings = cycle.state, cycle.settings
    now = state.snapshot.now_s
    mark = state.mark()
    ends: list[tuple[float, Task]] = []
    for task, seated in state.seated.items():
        began = state.began.get(task) or Running(task, seated.shape, Spot(""), now)
        left = remaining(state.workloads[task.workload], began, now, settings.runtimes)
        ends.append((which(left), task))
    usual = sorted(at for at, _ in ends)[len(ends) // 2] if ends else 0.0
    heapq.heapify(ends)
    first = [
        found for name in ahead[:AHEAD_MAX] if (found := next_piece(state, state.workloads[name]))
    ]
    bound = UpperBound(state, piece)
    answer: float | None = None
    for _ in range(ENDS_MAX):
        if not ends:
            break
        at_s, task = heapq.heappop(ends)
        place = state.stop(task).place
        bound.freed([(place.pool, place.seat.node)])
        if ends and ends[0][0] <= at_s:
            continue
        for other in list(first):
            if start_piece(state, other):
                first.remove(other)
                takes = takes_at_most(other.workload, settings.runtimes)
                for begun, _ in other.tasks:
                    seat = state.seated[begun].place
                    bound.freed([(seat.pool, seat.seat.node)])
                    heapq.heappush(ends, (at_s + (usual if takes is None else takes), begun))
        if bound.has_chance() and start_piece(state, piece):
            answer = at_s
            break
    state.back(mark)
    return answer
