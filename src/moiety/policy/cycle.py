"""One cycle for queues: a snapshot in, decisions out.

First what is free is filled. For what still waits, room is made in the order of the harm that it
does: by moving others, by taking back from queues that have too much, by ending what is less
important in the same queue. A gang that lost members and does not get them back ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from moiety.policy import room
from moiety.policy.cluster import WHOLE_GPU
from moiety.policy.decisions import Decision, Eviction, Move, Placement, Reason, Refusal
from moiety.policy.pending import Line, Piece, next_piece, waiting
from moiety.policy.snapshot import Snapshot, Task
from moiety.policy.standing import GPU_MILLI, Excess
from moiety.policy.state import State
from moiety.policy.typical import Typical, typical_of
from moiety.policy.victims import Leavers, Unit
from moiety.policy.workloads import Shape

Plan = list[room.Ended]
Making = Callable[[State, Piece, Leavers], Plan | None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How far a cycle may go to make room."""

    min_run_s: float = 0.0
    """what has run for less is neither ended nor moved for others"""
    moves_max: int = 64
    """tasks that may be moved in one cycle"""


USUAL = Terms()


def decide(
    snapshot: Snapshot, known: Typical | None = None, terms: Terms = USUAL
) -> list[Decision]:
    """What should happen now: evictions, moves, placements, and why the others wait.

    They are one plan: all evictions and moves, then the placements. `known` is what comes to these
    pools; None: what is in the snapshot. Raises InvalidValue for a snapshot that makes no sense.
    """
    cycle = _Cycle(State(snapshot, known or typical_of(_shapes(snapshot))), terms)
    cycle.run()
    return cycle.decisions()


class _Cycle:
    def __init__(self, state: State, terms: Terms) -> None:
        self.state = state
        self.terms = terms
        self.why: dict[Task, tuple[str, str | None]] = {}
        """for what was ended or moved: the reason, and for whom"""
        self.ended: set[str] = set()
        """workloads that yielded in this cycle: they come back in a later one"""
        self.moves_left = terms.moves_max
        self.refusals: list[Decision] = []
        self._leavers: Leavers | None = None
        state.standing.share_out(state.capacity, waiting(state), state.snapshot.used)

    def run(self) -> None:
        """Everything, in the order in which it does harm."""
        self._fill()
        made = self._make(self._consolidate, "moved")
        made = self._make(room.reclaim, "reclaimed") or made
        made = self._make(room.preempt, "preempted") or made
        if made:
            self._fill()
        self._explain()
        self._end_stale()

    def _fill(self) -> None:
        """Everything begins that has room and may; what is alike is tried once."""
        state = self.state
        full: set[tuple[object, ...]] = set()

        def attempt(piece: Piece) -> Piece | None:
            if piece.likeness in full:
                return None
            if room.start_piece(state, piece):
                return next_piece(state, piece.workload)
            if state.may_start(piece.workload, piece.amounts):
                full.add(piece.likeness)
            return None

        for _ in Line(state, self.ended).serve(attempt):
            pass

    def _consolidate(self, state: State, piece: Piece, leavers: Leavers) -> Plan | None:
        return room.consolidate(state, piece, leavers, self.moves_left)

    def _make(self, making: Making, word: str) -> bool:
        """Make room for what waits, piece by piece; whether there was any."""
        state = self.state
        in_vain: set[tuple[object, ...]] = set()
        made = False

        def attempt(piece: Piece) -> Piece | None:
            nonlocal made
            workload = piece.workload
            like = (workload.queue, workload.is_preemptible, workload.priority, piece.likeness)
            if like in in_vain or workload.name in self.ended or not self._may_ask(piece):
                return None
            if self._leavers is None:
                self._leavers = Leavers(state, self.terms.min_run_s)
            plan = making(state, piece, self._leavers)
            if plan is None:
                in_vain.add(like)
                return None
            in_vain.clear()
            made = True
            self._leavers.changed({workload.name, *(each.unit.workload.name for each in plan)})
            self._write_down(plan, piece, word)
            return next_piece(state, workload)

        for _ in Line(state, self.ended).serve(attempt):
            pass
        return made

    def _may_ask(self, piece: Piece) -> bool:
        """Whether room would help: what must not be taken away stays within quota."""
        workload = piece.workload
        if workload.is_preemptible:
            return True
        return not self.state.standing.over_quota(workload.queue, piece.amounts)

    def _write_down(self, plan: Plan, piece: Piece, word: str) -> None:
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

    def _reason(self, unit: Unit, piece: Piece, word: str) -> str:
        theirs, mine = unit.workload, piece.workload
        if word == "preempted":
            return (
                f"preempted: {mine.name} has priority {mine.priority}, "
                f"{theirs.name} {theirs.priority}"
            )
        return f"{word}: {self._stands(theirs.queue)}; {self._stands(mine.queue)} with {mine.name}"

    def _stands(self, queue: str) -> str:
        standing = self.state.standing
        has, fair = standing.has[queue][GPU_MILLI], standing.fair[queue][GPU_MILLI]
        quota = standing.quota[queue][GPU_MILLI]
        own = "" if quota is None else f", its quota is {_gpus(quota)}"
        return f"queue {queue} has {_gpus(has)} of a fair share of {_gpus(fair)} GPUs{own}"

    def _end_stale(self) -> None:
        """End gangs that have lost members that nobody gives them back."""
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
        """Say of each workload that waits why it does."""
        state = self.state
        known: dict[tuple[object, ...], Refusal] = {}
        for name in sorted(state.unmet):
            piece = next_piece(state, state.workloads[name])
            if piece is None or name in self.ended:
                continue
            task, _ = piece.tasks[0]
            refusal = self._by_queue(piece)
            if refusal is None:
                refusal = known.get(piece.likeness)
                if refusal is None:
                    refusal = self._by_room(piece)
                    if refusal is None:
                        continue
                    known[piece.likeness] = refusal
                text = refusal.text
                if not refusal.is_final:
                    text = f"{text}; {self._stands(piece.workload.queue)}"
                refusal = replace(refusal, task=task, text=text)
            self.refusals.append(refusal)

    def _by_queue(self, piece: Piece) -> Refusal | None:
        standing, workload = self.state.standing, piece.workload
        excess = standing.over_limit(workload.queue, piece.amounts)
        if excess is not None:
            return _refusal(piece, excess, Reason.QUEUE_LIMIT, "limit")
        if not workload.is_preemptible:
            excess = standing.over_quota(workload.queue, piece.amounts)
            if excess is not None:
                return _refusal(piece, excess, Reason.QUEUE_QUOTA, "quota")
        return None

    def _by_room(self, piece: Piece) -> Refusal | None:
        """Place what can be placed, and ask about the first task that cannot."""
        state = self.state
        mark = state.mark()
        refusal = None
        for task, shape in piece.tasks:
            if not state.try_start(task, shape, piece.workload):
                if state.pools.find(shape, piece.workload) is None:
                    refusal = state.pools.refuse(shape, task, piece.workload)
                break
        state.back(mark)
        return refusal

    def decisions(self) -> list[Decision]:
        """The difference that the cycle has made, and the refusals."""
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
            text, whom = self.why[task]
            if now is None:
                evictions.append(Eviction(task, source, text, whom))
            else:
                target = state.pools.spot(now.place)
                moves.append(Move(task, source, target, state.began[task].state_bytes, text))
        return [*evictions, *moves, *placements, *self.refusals]


def _refusal(piece: Piece, excess: Excess, reason: Reason, bound: str) -> Refusal:
    task, _ = piece.tasks[0]
    of = excess.resource
    wanted, most = f"{excess.wanted} {of}", f"{excess.bound}"
    if of == "gpu_milli":
        wanted, most = f"{_gpus(excess.wanted)} GPUs", _gpus(excess.bound)
    own = " that must not be taken away" if reason is Reason.QUEUE_QUOTA else ""
    text = f"queue {excess.queue} would have {wanted}{own}, and its {bound} is {most}"
    numbers = {f"wanted_{of}": excess.wanted, f"{bound}_{of}": excess.bound}
    return Refusal(task, reason, text, numbers=numbers)


def _gpus(milli: int) -> str:
    return f"{milli / WHOLE_GPU:g}"


def _shapes(snapshot: Snapshot) -> Counter[Shape]:
    counts: Counter[Shape] = Counter()
    for workload in snapshot.workloads:
        for subgroup in workload.subgroups:
            counts[subgroup.shape] += subgroup.tasks
    return counts
