"""One cycle for queues: a snapshot in, decisions out.

First free room is filled. For workloads that still wait, room is made in the order of the harm that
it does: by moving others, by taking back from queues that have too much, by ending work of lower
priority in the same queue. A gang that lost members and does not get them back ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moiety.policy.actions import actions
from moiety.policy.autoscaler import ScalingPlan, scale, with_growth
from moiety.policy.backfill import Reservations
from moiety.policy.cycle_settings import USUAL, CycleSettings
from moiety.policy.estimate.remaining_time import unknown
from moiety.policy.explain.pending_reasons import PendingReasons, ending
from moiety.policy.garbage import uncollected
from moiety.policy.memory import PolicyMemory
from moiety.policy.model.decisions import CyclePlan, Decision, PlacementRefusal
from moiety.policy.model.snapshot import Snapshot, Task
from moiety.policy.model.work_budget import WorkBudget
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix, typical_work
from moiety.policy.preempt import reclaim
from moiety.policy.preempt.confined_victims import in_the_way
from moiety.policy.preempt.defragment import defragment
from moiety.policy.preempt.outrank import outrank
from moiety.policy.preempt.overdue import incomplete, overdue
from moiety.policy.preempt.preemption_trial import EndedUnit
from moiety.policy.preempt.repack import repack, within_quota
from moiety.policy.preempt.rights import has_yielded
from moiety.policy.preempt.victims import Victims
from moiety.policy.queue.queue_usage import GPU_MILLI
from moiety.policy.state.cluster_state import ClusterState
from moiety.policy.state.gang_parts import GangPart, next_piece
from moiety.policy.state.gang_start import start_piece
from moiety.policy.state.kept_state import Changes, KeptState
from moiety.policy.state.queue_order import Chance, QueueOrder, any_has
from moiety.policy.state.waiting_lines import WaitingLines

Attempt = Callable[[GangPart], GangPart | None]
Ends = list[EndedUnit]
Making = Callable[[ClusterState, GangPart, Victims, int], Ends | None]


def decide(
    snapshot: Snapshot,
    known: WorkloadMix | None = None,
    settings: CycleSettings = USUAL,
    budget: WorkBudget | None = None,
    memory: PolicyMemory | None = None,
    kept: KeptState | None = None,
    changes: Changes | None = None,
) -> CyclePlan:
    """What should happen now: evictions, moves, placements, and why the others wait.

    They are one plan: all evictions and moves, then the placements. `known` is the usual work of
    these pools; None: the work of the snapshot. With a `budget` the answer is the best that was
    found within it. A `memory` adds the worth of work: it orders work within a queue and priority,
    and lets work of much more worth end other work there; the plan then says when to ask again.
    What `kept` has of the decision before is used again: it saves time and changes nothing. With
    `changes`, work is that of the decision before and what has changed; the snapshot has none, and
    `known` is needed. Why work waits is found when the plan is read beyond its actions.

    Raises InvalidValue for a snapshot or changes that make no sense.
    """
    with uncollected():
        cycle = Cycle(snapshot, known, settings, budget, memory, kept, changes)
        cycle.run()
        plan = CyclePlan(cycle.actions(), cycle.look_s(), cycle.remarks)
    if kept is not None:
        kept.planned(plan)
    return plan


class Cycle:
    """One cycle; `state` is the cluster after it."""

    def __init__(
        self,
        snapshot: Snapshot,
        known: WorkloadMix | None = None,
        settings: CycleSettings = USUAL,
        budget: WorkBudget | None = None,
        memory: PolicyMemory | None = None,
        kept: KeptState | None = None,
        changes: Changes | None = None,
    ) -> None:
        budget = budget or WorkBudget()
        budget.begin()
        self.known = known or typical_work(snapshot.workloads)
        self.state = (kept or KeptState()).follow(snapshot, self.known, budget, changes)
        self.settings = settings
        self.state.worth_ends = settings.worth_ends
        self._memory = memory
        if memory is not None:
            self.state.worth = memory.worth(snapshot.now_s) if settings.worth_orders else {}
            self.state.yielded = memory.yielded(snapshot.now_s)
            if memory.credit is not None:
                self.state.standing.credit = memory.credit
        self.why: dict[Task, tuple[str, str | None]] = {}
        """For each task that was ended or moved: the reason, and the workload that gets room."""
        self.ended: set[str] = set()
        """Workloads that yielded in this cycle: they come back in a later one."""
        self.overdue: set[str] = set()
        """Workloads that have run for as long as they may."""
        self.exchanges: dict[str, tuple[str, str]] = {}
        """Workloads that were larger than what is due to their queue, and yielded to another."""
        self.reserved = Reservations(self.state, settings)
        self._are_ends_known = settings.runtimes is not unknown or bool(self.state.bounded)
        """Whether any work can be known to end before a reservation begins."""
        self.moves_left = settings.moves_max
        self._refusals: list[PlacementRefusal] | None = None
        self.scaled = ScalingPlan()
        self._has_scaled = False
        self._leavers: Victims | None = None
        self._order: QueueOrder | None = None
        self.state.standing.share_out(
            self.state.capacity,
            WaitingLines.current(self.state).lacking(),
            self.state.snapshot.used,
        )

    def run(self) -> None:
        """Run all steps of the cycle, the least harmful first."""
        over = overdue(self.state)
        self._end(over)
        self.ended |= over.keys()
        self.overdue |= over.keys()
        self._fill()
        opportunists = bool(self.state.opportunists)
        made = opportunists and self._make(reclaim.displace, "displaced")
        made = (bool(self.moves_left) and self._make(reclaim.consolidate, "moved")) or made
        if len(self.state.standing.paths) > 1 and self._is_unranked():
            made = self._make(reclaim.reclaim, "reclaimed") or made
        if len(self.state.priorities) > 1:
            made = self._make(reclaim.preempt, "preempted") or made
        if made:
            self._fill("refill")
        if opportunists:
            self._fill("opportunistic")
        if self.settings.defragment_moves and not self.why:
            self._defragment()
        if self.state.worth and self.settings.worth_ends and not self.ended:
            self._repack()  # else in the next cycle, which comes at once
        lost = incomplete(self.state)
        if lost or self.state.budget.is_bounded:  # reasons are those of now, and of this time
            self._find_refusals()
        self._end(lost)
        if self.settings.scales and any(pool.is_dynamic for pool in self.state.snapshot.pools):
            self._scale()
        if not self.state.budget.is_used_up():
            self.state.budget.tried.clear()

    def _is_unranked(self) -> bool:
        """Whether any work waits of which the worth is not known: else outranking took all."""
        return not WaitingLines.current(self.state).are_known(self.state.worth)

    def _end(self, texts: Mapping[str, str]) -> None:
        """End workloads, each for the reason of its text."""
        for name, text in texts.items():
            for task in sorted(self.state.tasks_of[name]):
                self.state.stop(task)
                self.why[task] = (text, None)

    def _serve(
        self,
        what: str,
        attempt: Attempt,
        has_chance: Chance,
        *,
        opportunistic: bool = False,
    ) -> None:
        """Try each piece in its turn; leave out pieces that were tried in vain of late."""
        budget = self.state.budget
        if budget.is_bounded:  # each has its turn in one of the next cycles
            has_chance = any_has

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
        self._order = QueueOrder(self.state, self.ended, opportunistic=opportunistic)
        for _ in self._order.serve(within, has_chance):
            if budget.is_used_up():
                return

    def _fill(self, what: str = "fill") -> None:
        """Let each piece begin that has room and may begin; equal pieces are tried once."""
        state, opportunistic = self.state, what == "opportunistic"
        full: set[tuple[int, bool]] = set()
        """Likenesses without room: beside what is reserved, or (True) nowhere."""
        barred: set[int] = set()
        unyielding: set[int] = set()
        outranks = bool(state.worth) and not opportunistic
        if not opportunistic:
            self.reserved.begin()
            if outranks and not self.settings.worth_ends:
                self.reserved.keep_for_long_waiting()

        def attempt(piece: GangPart) -> GangPart | None:
            workload, like = piece.workload, piece.likeness
            is_anywhere = self.reserved.leave_all(workload)
            if (like, True) not in full and (like, is_anywhere) not in full:
                state.budget.spend(len(piece.tasks))
                if start_piece(state, piece):
                    return next_piece(state, workload)
                if not state.may_start(workload, piece.amounts):
                    barred.add(piece.claim)
                else:
                    full.add((like, is_anywhere))
                    self.reserved.keep(piece)
            if not outranks or not self._make_for(piece, outrank, "outranked", unyielding):
                return None
            full.clear()
            barred.clear()
            assert self._order
            self._order.revive()
            return next_piece(state, workload)

        def has_chance(piece: GangPart) -> Callable[[Workload], bool] | bool:
            if outranks and (piece.claim not in unyielding or not self.settings.reservations):
                return piece.claim not in unyielding
            if piece.claim in barred or (piece.likeness, True) in full:
                return False
            has_begun = (piece.likeness, False) not in full
            if has_begun or not self._are_ends_known:
                return has_begun
            return self.reserved.leave_all

        self._serve(what, attempt, has_chance, opportunistic=opportunistic)

    def _repack(self) -> None:
        """Find places for work within quota that still waits, where that means to move others."""
        state = self.state
        if not (waits := within_quota(state, self.ended)):
            return
        self._leavers = None  # what has begun in this cycle may make room, too
        for each in repack(state, self._who_leaves(), waits) or ():
            for task, seated in zip(each.unit.tasks, each.seated, strict=True):
                if state.seated.get(task) != seated:
                    self.why[task] = "makes room for work within the quota of its queue", None
            first = each.unit.tasks[0]
            if first in state.began and first not in state.seated and not each.unit.is_extra:
                self.ended.add(each.unit.workload.name)

    def _defragment(self) -> None:
        moves_max = self.settings.defragment_moves
        for each in defragment(self.state, self._who_leaves(), self.known, moves_max):
            self.why[each.unit.tasks[0]] = "moved so that what is free is of more use", None

    def _who_leaves(self) -> Victims:
        if self._leavers is None:
            self._leavers = Victims.current(self.state, self.settings.min_run_s)
        return self._leavers

    def _make(self, making: Making, word: str) -> bool:
        """Make room for waiting pieces, one by one; returns whether any room was made."""
        state = self.state
        in_vain: set[int] = set()
        made = False

        def attempt(piece: GangPart) -> GangPart | None:
            nonlocal made
            if not self._make_for(piece, making, word, in_vain):
                return None
            made = True
            return next_piece(state, piece.workload)

        self._serve(word, attempt, lambda piece: piece.claim not in in_vain)
        return made

    def _make_for(self, piece: GangPart, making: Making, word: str, in_vain: set[int]) -> bool:
        """Make room for a piece, if it may ask and none like it was tried in vain."""
        state, workload = self.state, piece.workload
        if piece.claim in in_vain or workload.name in self.ended or has_yielded(state, piece):
            return False
        if not self._may_ask(piece) or (word == "moved" and self.reserved.bar(piece)):
            in_vain.add(piece.claim)
            return False
        leavers = self._who_leaves()
        state.budget.spend()
        had = {name: has[GPU_MILLI] for name, has in state.standing.has.items()}
        plan = making(state, piece, in_the_way(state, piece, leavers), self.moves_left)
        if plan is None:
            in_vain.add(piece.claim)
            return False
        leavers.changed({each.unit.workload.name for each in plan})  # what began stays for now
        self._write_down(plan, piece, word, had)
        return True

    def _may_ask(self, piece: GangPart) -> bool:
        """Whether room would help: work that must not be taken away stays within quota."""
        queue, standing = piece.workload.queue, self.state.standing
        return piece.workload.is_preemptible or not standing.over_quota(queue, piece.amounts)

    def _write_down(self, plan: Ends, piece: GangPart, word: str, had: Mapping[str, int]) -> None:
        """Keep the reason of each end and move; `had` is what queues had before them."""
        state, name = self.state, piece.workload.name
        for ended in plan:
            theirs = ended.unit.workload
            is_taken = word == "outranked" and theirs.queue != piece.workload.queue
            by = "reclaimed" if is_taken else word
            if by == "reclaimed" and not theirs.is_opportunistic:
                self._note_exchange(piece.workload.queue, ended)
            for task, seated in zip(ended.unit.tasks, ended.seated, strict=True):
                now = state.seated.get(task)
                if now == seated:
                    continue
                if now is None:
                    self.why[task] = ending(state, theirs, piece.workload, by, had), name
                    if not ended.unit.is_extra:
                        self.ended.add(theirs.name)
                    continue
                self.why[task] = (f"moved to make room for {name}", name)
                self.moves_left -= 1

    def _note_exchange(self, queue: str, ended: EndedUnit) -> None:
        standing, name = self.state.standing, ended.unit.workload.name
        sides = standing.sides(queue, ended.unit.workload.queue)
        if standing.is_too_much(sides[1], sum(each.amounts[GPU_MILLI] for each in ended.seated)):
            self.exchanges[name] = sides

    def _find_refusals(self) -> list[PlacementRefusal]:
        """Find the reason for each workload that waits."""
        if self._refusals is None:
            self._refusals = []
            if self.settings.reasons:
                self._refusals = PendingReasons(self.state, self.reserved.all).all(self.ended)
        return self._refusals

    def _scale(self) -> None:
        """Decide what dynamic pools should do."""
        if not self.state.budget.is_past():
            kept = {node for each in self.reserved.all for node in each.nodes()}
            self.scaled = scale(self.state, self.known, self.overdue, kept)
            self._has_scaled = True

    def look_s(self) -> float | None:
        """When to decide again if nothing happens; None: only when something does."""
        state, now_s = self.state, self.state.snapshot.now_s
        if not state.unmet:
            return None
        if self._memory is not None and state.seated:
            return now_s if self.ended else self._memory.look_s(now_s)
        return state.standing.next_border_s(now_s, state.snapshot.monday_s)

    def remarks(self) -> list[Decision]:
        """Why each workload waits, and what dynamic pools should do, which is a part of that."""
        found = self._find_refusals()
        if not self._has_scaled:
            return [*found]
        scaled = self.scaled
        return [*(with_growth(self.state, scaled, each) for each in found), *scaled.decisions]

    def decisions(self) -> list[Decision]:
        """Actions and remarks."""
        return [*self.actions(), *self.remarks()]

    def actions(self) -> list[Decision]:
        """The differences between the snapshot and the state after the cycle."""
        return actions(self.state, self.why, self.overdue, self.exchanges)
