"""One cycle for queues: a snapshot in, decisions out.

First free room is filled. For workloads that still wait, room is made in the order of the harm that
it does: by moving others, by taking back from queues that have too much, by ending work of lower
priority in the same queue. A gang that lost members and does not get them back ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from moiety.policy.autoscaler import ScalingPlan, could_hold, scale
from moiety.policy.backfill import Reservation, reserve
from moiety.policy.estimate.remaining_time import Runtimes, takes_at_most, unknown
from moiety.policy.explain.pending_reasons import PendingReasons, stands
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import Decision, Eviction, Move, Placement, PlacementRefusal
from moiety.policy.model.snapshot import Snapshot, Task
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Shape, Workload
from moiety.policy.place.pools import Masks, both
from moiety.policy.place.workload_mix import WorkloadMix, typical_of
from moiety.policy.preempt import reclaim
from moiety.policy.preempt.defragment import defragment
from moiety.policy.preempt.preemption_trial import EndedUnit
from moiety.policy.preempt.victims import Victims, VictimUnit
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.queue_order import GangPart, QueueOrder, next_piece, waiting

Attempt = Callable[[GangPart], GangPart | None]
Plan = list[EndedUnit]
Making = Callable[[ClusterState, GangPart, Victims, int], Plan | None]


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """How far a cycle may go to make room, and which workloads get reservations."""

    min_run_s: float = 0.0
    """A task that has run for less is neither ended nor moved for others."""
    moves_max: int = 64
    """The most tasks that are moved in one cycle to make room, also where others end for the same
    room: tasks that would have to move beyond that end instead."""
    defragment_moves: int = 0
    """The most tasks that are moved to make free room more useful, in a cycle in which nothing else
    moves or ends."""
    reservations: int = 1
    """The most workloads that wait for more than one GPU and get a reservation."""
    reserve_after_s: float = 600.0
    """How long a workload waits before it gets a reservation."""
    runtimes: Runtimes = unknown


USUAL = CycleSettings()


def decide(
    snapshot: Snapshot,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    budget: WorkBudget | None = None,
) -> list[Decision]:
    """What should happen now: evictions, moves, placements, and why the others wait.

    They are one plan: all evictions and moves, then the placements. `known` is the usual work of
    these pools; None: the work of the snapshot. With a `budget` the answer is the best that was
    found within it. Raises InvalidValue for a snapshot that makes no sense.
    """
    cycle = Cycle(snapshot, known, settings, budget)
    cycle.run()
    return cycle.decisions()


class Cycle:
    """One cycle; `state` is the cluster after it."""

    def __init__(
        self,
        snapshot: Snapshot,
        known: WorkloadMix | None = None,
        settings: CycleSettings = USUAL,
        budget: WorkBudget | None = None,
    ) -> None:
        budget = budget or WorkBudget()
        budget.begin()
        self.known = known or typical_of(_shapes(snapshot))
        self.state = ClusterState(snapshot, self.known, budget)
        self.settings = settings
        self.why: dict[Task, tuple[str, str | None]] = {}
        """For each task that was ended or moved: the reason, and the workload that gets room."""
        self.ended: set[str] = set()
        """Workloads that yielded in this cycle: they come back in a later one."""
        self.overdue: set[str] = set()
        """Workloads that have run for as long as they may."""
        self.reserved: list[Reservation] = []
        self.moves_left = settings.moves_max
        self.refusals: list[PlacementRefusal] = []
        self.scaled = ScalingPlan()
        self._leavers: Victims | None = None
        self.state.standing.share_out(
            self.state.capacity, waiting(self.state), self.state.snapshot.used
        )

    def run(self) -> None:
        """Run all steps of the cycle, the least harmful first."""
        self._end_overdue()
        self._fill()
        everybody = self.state.workloads.values()
        opportunists = any(workload.is_opportunistic for workload in everybody)
        made = opportunists and self._make(reclaim.displace, "displaced")
        made = self._make(reclaim.consolidate, "moved") or made
        made = self._make(reclaim.reclaim, "reclaimed") or made
        if len({workload.priority for workload in everybody}) > 1:
            made = self._make(reclaim.preempt, "preempted") or made
        if made:
            self._fill()
        if opportunists:
            self._fill(opportunistic=True)
        if self.settings.defragment_moves and not self.why:
            self._defragment()
        self._explain()
        self._end_stale()
        if any(pool.is_dynamic for pool in self.state.snapshot.pools):
            self._scale()
        if not self.state.budget.is_used_up():
            self.state.budget.tried.clear()

    def _end_overdue(self) -> None:
        state = self.state
        for name in sorted(state.tasks_of):
            workload = state.workloads[name]
            if workload.max_run_s is None:
                continue
            since = min(state.began[task].since_s for task in state.tasks_of[name])
            ran = state.snapshot.now_s - since
            if ran < workload.max_run_s:
                continue
            text = f"it has run for {ran:.0f} s, and may for {workload.max_run_s:.0f}"
            for task in list(state.tasks_of[name]):
                state.stop(task)
                self.why[task] = (text, None)
            self.ended.add(name)
            self.overdue.add(name)

    def _serve(self, what: str, attempt: Attempt, *, opportunistic: bool = False) -> None:
        """Try each piece in its turn; leave out pieces that were tried in vain of late."""
        budget = self.state.budget

        def within(piece: GangPart) -> GangPart | None:
            key = what, piece.workload.name
            if key in budget.tried:
                return None
            budget.next_try()
            following = attempt(piece)
            if following is None and not budget.stops_plan():  # else it may have been cut short
                budget.tried.add(key)
            return following

        if budget.is_used_up():
            return
        for _ in QueueOrder(self.state, self.ended, opportunistic=opportunistic).serve(within):
            if budget.is_used_up():
                return

    def _fill(self, *, opportunistic: bool = False) -> None:
        """Let each piece begin that has room and may begin; equal pieces are tried once."""
        state = self.state
        full: set[tuple[object, ...]] = set()
        if not opportunistic:
            self.reserved.clear()
            state.left_to = None

        def attempt(piece: GangPart) -> GangPart | None:
            if piece.likeness in full:
                return None
            state.budget.spend(len(piece.tasks))
            if start_piece(state, piece):
                return next_piece(state, piece.workload)
            if self._left_to(piece.workload) is None and state.may_start(
                piece.workload, piece.amounts
            ):
                full.add(piece.likeness)
                self._reserve(piece)
            return None

        self._serve(
            "opportunistic" if opportunistic else "fill", attempt, opportunistic=opportunistic
        )

    def _reserve(self, piece: GangPart) -> None:
        """Reserve room for a large piece that has waited for long and has a turn."""
        state, settings, workload = self.state, self.settings, piece.workload
        waited = state.snapshot.now_s - workload.submitted_s
        if len(self.reserved) >= settings.reservations or waited < settings.reserve_after_s:
            return
        if piece.is_extra or workload.is_opportunistic or piece.amounts[GPU_MILLI] <= WHOLE_GPU:
            return
        if not state.standing.has_turn(workload.queue, 0, piece.amounts):
            return
        kept = reserve(state, piece, settings.runtimes)
        if kept is not None:
            self.reserved.append(kept)
            state.left_to = self._left_to

    def _left_to(self, workload: Workload) -> Masks | None:
        """The nodes where a workload may begin without delaying a reservation; None: all."""
        masks: Masks | None = None
        takes = takes_at_most(workload, self.settings.runtimes) if self.reserved else None
        for kept in self.reserved:
            if kept.workload == workload.name:
                continue
            if takes is None or self.state.snapshot.now_s + takes > kept.start_s:
                masks = both(masks, kept.others)
        return masks

    def _defragment(self) -> None:
        state = self.state
        moved = defragment(state, self._who_leaves(), self.known, self.settings.defragment_moves)
        for each in moved:
            text = "moved so that what is free is of more use"
            self.why[each.unit.tasks[0]] = (text, None)

    def _who_leaves(self) -> Victims:
        if self._leavers is None:
            self._leavers = Victims(self.state, self.settings.min_run_s)
        return self._leavers

    def _make(self, making: Making, word: str) -> bool:
        """Make room for waiting pieces, one by one; returns whether any room was made."""
        state = self.state
        in_vain: set[tuple[object, ...]] = set()
        made = False

        def attempt(piece: GangPart) -> GangPart | None:
            nonlocal made
            workload = piece.workload
            like = (workload.queue, workload.is_preemptible, workload.priority, piece.likeness)
            if like in in_vain or workload.name in self.ended or not self._may_ask(piece):
                return None
            leavers = self._who_leaves()
            state.budget.spend()
            plan = making(state, piece, leavers, self.moves_left)
            if plan is None:
                in_vain.add(like)
                return None
            in_vain.clear()
            made = True
            leavers.changed({workload.name, *(each.unit.workload.name for each in plan)})
            self._write_down(plan, piece, word)
            return next_piece(state, workload)

        self._serve(word, attempt)
        return made

    def _may_ask(self, piece: GangPart) -> bool:
        """Whether room would help: work that must not be taken away stays within quota."""
        workload = piece.workload
        if workload.is_preemptible:
            return True
        return not self.state.standing.over_quota(workload.queue, piece.amounts)

    def _write_down(self, plan: Plan, piece: GangPart, word: str) -> None:
        state, name = self.state, piece.workload.name
        for ended in plan:
            for task, seated in zip(ended.unit.tasks, ended.seated, strict=True):
                now = state.seated.get(task)
                if now == seated:
                    continue
                if now is None:
                    self.why[task] = (self._reason(ended.unit, piece, word), name)
                    if not ended.unit.is_extra:
                        self.ended.add(ended.unit.workload.name)
                    continue
                self.why[task] = (f"moved to make room for {name}", name)
                self.moves_left -= 1

    def _reason(self, unit: VictimUnit, piece: GangPart, word: str) -> str:
        theirs, mine = unit.workload, piece.workload
        if word == "preempted" and not theirs.is_opportunistic:
            return (
                f"preempted: {mine.name} has priority {mine.priority}, "
                f"{theirs.name} {theirs.priority}"
            )
        if theirs.is_opportunistic:
            return f"displaced: {theirs.name} is opportunistic, and {mine.name} wants the room"
        ours = stands(self.state, mine.queue)
        return f"{word}: {stands(self.state, theirs.queue)}; {ours} with {mine.name}"

    def _end_stale(self) -> None:
        """End gangs that have lost members and did not get them back."""
        state = self.state
        for name in sorted(state.unmet):
            if not state.tasks_of.get(name):
                continue
            workload = state.workloads[name]
            for subgroup in workload.subgroups:
                running = state.running[name, subgroup.name]
                if running < subgroup.tasks_min:
                    break
            else:
                continue
            text = f"only {running} of at least {subgroup.tasks_min} tasks of the gang have places"
            for task in list(state.tasks_of[name]):
                state.stop(task)
                self.why[task] = (text, None)

    def _explain(self) -> None:
        """Find the reason for each workload that waits."""
        state = self.state
        reasons = PendingReasons(state, self.reserved)
        for name in sorted(state.unmet):
            piece = next_piece(state, state.workloads[name])
            if piece is not None and name not in self.ended:
                self.refusals.append(reasons.of(piece))

    def _scale(self) -> None:
        """Decide what dynamic pools should do, and note it in the refusals of waiting workloads."""
        state = self.state
        if state.budget.is_past():
            return
        kept = [each.others for each in self.reserved]
        self.scaled = scale(state, self.known, self.overdue, kept)
        now_s = state.snapshot.now_s
        for at, refusal in enumerate(self.refusals):
            comes = self.scaled.comes.get(refusal.task.workload)
            if comes is not None:
                pool, ready_s = comes
                wait_s = ready_s - now_s
                text = (
                    f"{refusal.text}; a node of pool {pool} is being started for it, "
                    f"expected in {wait_s:.0f} s"
                )
                numbers = {**refusal.numbers, "node_expected_s": round(wait_s)}
                self.refusals[at] = replace(refusal, text=text, is_final=False, numbers=numbers)
                continue
            if not refusal.is_final:
                continue
            piece = next_piece(state, state.workloads[refusal.task.workload])
            held = could_hold(state, piece) if piece else None
            if held is not None:
                text = f"{refusal.text}; pool {held.name} could have nodes for it, later"
                self.refusals[at] = replace(refusal, text=text, is_final=False)

    def decisions(self) -> list[Decision]:
        """The differences between the snapshot and the state after the cycle, and the refusals."""
        state = self.state
        evictions: list[Decision] = []
        moves: list[Decision] = []
        placements: list[Decision] = []
        for task, before in state.changed():
            now = state.seated.get(task)
            if now == before:
                continue
            if before is None:
                assert now
                placements.append(Placement(task, state.pools.spot(now.place)))
                continue
            source = state.pools.spot(before.place)
            text, for_workload = self.why[task]
            if now is None:
                is_final = task.workload in self.overdue
                evictions.append(Eviction(task, source, text, for_workload, is_final))
            else:
                target = state.pools.spot(now.place)
                moves.append(Move(task, source, target, state.began[task].state_bytes, text))
        return [*evictions, *moves, *placements, *self.refusals, *self.scaled.decisions]


def _shapes(snapshot: Snapshot) -> Counter[Shape]:
    counts: Counter[Shape] = Counter()
    for workload in snapshot.workloads:
        for subgroup in workload.subgroups:
            counts[subgroup.shape] += subgroup.tasks
    return counts
