"""Reads the store as far as it has changed, and asks `moiety.policy`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.explain.explanation import explain
from moiety.policy.explain.forecast import Start, expected_starts
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix, typical_work
from moiety.policy.state.kept_state import KeptState
from moiety.pool.engine.books import GpuBooks
from moiety.pool.engine.compact import compact
from moiety.pool.engine.eligible import Eligible
from moiety.pool.engine.learning import PoolMemory, with_milli
from moiety.pool.engine.messages import (
    CycleAnswer,
    CycleRequest,
    ExpectedStart,
    ExplainAnswer,
    ExplainRequest,
    MachineView,
    ReasonsAnswer,
    ReasonsRequest,
    ResizeAnswer,
    ResizeRequest,
    StartsAnswer,
    StartsRequest,
    WaitReason,
)
from moiety.pool.engine.sentences import beside, beyond_project, foreseeable, said, sentence
from moiety.pool.engine.snapshot import (
    NOTHING,
    OUTSIDE_QUEUE,
    PoolNodes,
    nodes_of,
    orders_of,
    reasons_of,
    snapshot_of,
    whole_memory_mib,
    workload_of,
)
from moiety.pool.engine.user_limits import UserBooks
from moiety.pool.engine.wait_times import WaitTimes
from moiety.pool.model.projects import monday_of, queues_of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ACTIVE, WorkState
from moiety.pool.store import memory as learned
from moiety.pool.store import rows as stored

NO_MOVES: Final = CycleSettings(
    moves_max=0,
    worth_ends=False,
    reasons=False,
    scales=False,
    lasting_queues=frozenset({OUTSIDE_QUEUE.name}),
)
"""A program on a machine is not moved to another GPU, and loses nothing to others' worth."""
WITH_REASONS: Final = CycleSettings(moves_max=0, worth_ends=False, reasons=True, scales=False)
MIX_GROWTH: Final = 2
"""The usual work is found anew when there is this many times as much, or as little."""


class PoolPlanner:
    """Decides for one pool; it keeps what it has read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """The connection only reads."""
        self._connection = connection
        self.memory = PoolMemory(learned.load(connection, learned.POLICY))
        """What it has learned."""
        self._change = -1
        self._rows: dict[int, WorkRow] = {}
        self._waits = WaitTimes()
        self._read_s: float | None = None
        """When it read last."""
        self._workloads: dict[int, Workload] = {}
        self._machine: MachineView | None = None
        self._nodes = PoolNodes()
        self._models: tuple[list[str], int] = ([], 0)
        """The models of the machine, and the memory that work of whole GPUs needs."""
        self._kept = KeptState()
        self._users: UserBooks | None = None
        """What users with limits have; None: there are no limits."""
        self._known: WorkloadMix | None = None
        self._known_of = 0
        self._beyond: dict[int, WaitReason] = {}
        """By number, of the last decision: memory limits are too much for work that had GPUs."""
        self._reasons: dict[str, WaitReason] = {}
        self._explained: tuple[int, MachineView | None] = (-1, None)
        """The change and the machine of `_reasons`."""

    def cycle(self, asked: CycleRequest) -> CycleAnswer:
        """What is to be done now."""
        snapshot = self._read(asked.machine, asked.now_s, asked.carried, asked.host_free_bytes)
        later = Eligible(asked.now_s).next_s(self._rows.values())
        plan = self._decide(snapshot, NO_MOVES)
        users, kept = self._users.too_many(plan, self._rows) if self._users else (set(), set())
        if users:  # what they may not have is left to others
            plan = self._decide(self._without(snapshot, users, kept), NO_MOVES)
        if plan.look_s is not None and plan.look_s > asked.now_s:
            later.append(plan.look_s)  # else when something has ended, which it will hear of
        self._beyond = {}
        answer = orders_of(
            plan, self._rows, self._nodes, min(later, default=None),
            asked.machine.arena_mib, self._beyond, self._users,
        )  # fmt: skip
        return msgspec.structs.replace(answer, memory=self.memory.dump(asked.now_s))

    def reasons(self, asked: ReasonsRequest) -> ReasonsAnswer:
        """Why workloads wait: the same decision once more, with all of its reasons."""
        reasons = self._because(self._read(asked.machine, asked.now_s), asked.machine)
        eligible = Eligible.of(self._rows.values(), asked.now_s)
        found = {}
        for number in asked.numbers:
            row = self._rows.get(number)
            if row is None:
                continue
            why = self._not_tried(row, eligible)
            why = why or beside(self._nodes, reasons.get(str(number)))
            if why is not None:
                found[number] = why
        return ReasonsAnswer(found)

    def starts(self, asked: StartsRequest) -> StartsAnswer:
        """When workloads will begin: the engine decides ahead of time, for all of them at once."""
        snapshot = foreseeable(self._read(asked.machine, asked.now_s), asked.numbers)
        waits = {each.name for each in snapshot.workloads}
        waits -= {each.task.workload for each in snapshot.running}
        names = [name for name in map(str, asked.numbers) if name in waits]
        found = expected_starts(snapshot, names, None, NO_MOVES, self.memory.memory)
        return StartsAnswer(
            {int(name): self._told(name, start, asked.now_s) for name, start in found.items()}
        )

    def explain(self, asked: ExplainRequest) -> ExplainAnswer:
        """One sentence: why a workload waits, what is ahead, what would have to end, and when."""
        whole = self._read(asked.machine, asked.now_s)
        snapshot = foreseeable(whole, [asked.number])
        row = self._rows.get(asked.number)
        why = None if row is None else self._not_tried(row, Eligible.of([row], asked.now_s))
        name = str(asked.number)
        if why is not None or not any(each.name == name for each in snapshot.workloads):
            return ExplainAnswer(why, ExpectedStart())
        found = explain(snapshot, name, None, WITH_REASONS, said, self.memory.memory)
        known = self._because(whole, asked.machine).get(name)
        reason = beside(self._nodes, sentence(found, known.kind if known else "not-yet"))
        start = ExpectedStart()
        if found.start is not None and found.status == "waits":
            start = self._told(name, found.start, asked.now_s)
        return ExplainAnswer(reason, start)

    def resize(self, asked: ResizeRequest) -> ResizeAnswer:
        """Whether a workload that has GPUs may have this part of them."""
        snapshot = self._read(asked.machine, asked.now_s)
        row = self._rows.get(asked.number)
        if row is None or not row.cards:
            return ResizeAnswer("it has no GPUs now")
        wanted = msgspec.structs.replace(
            row, gpu_milli=asked.gpu_milli, gpu_memory_mib=asked.gpu_memory_mib
        )
        others = [each for each in self._rows.values() if each.id != row.id]
        cards = asked.machine.cards
        books = GpuBooks(cards, others, asked.machine.arena_mib)
        problem = books.refuse(wanted, books.milli_of(wanted, row.cards))
        more = (books.milli_of(wanted, row.cards) - books.milli_of(row, row.cards)) * len(row.cards)
        return ResizeAnswer(problem or beyond_project(snapshot, row.project, more))

    def _because(self, snapshot: Snapshot, machine: MachineView) -> dict[str, WaitReason]:
        """By name: why work waits; found once for each state of the store and the machine."""
        if self._explained != (self._change, machine):
            self._reasons = reasons_of(self._decide(snapshot, WITH_REASONS))
            self._explained = self._change, machine
        return self._reasons

    def _not_tried(self, row: WorkRow, eligible: Eligible) -> WaitReason | None:
        """Why the engine is not asked about a workload, or cannot have its way."""
        of_user = self._users.why_not(row) if self._users else None
        return eligible.why_not(row) or of_user or self._beyond.get(row.id)

    def _told(self, name: str, start: Start, now_s: float) -> ExpectedStart:
        """The start as it is said; what comes then shows how true that was."""
        if start.foreseen_s is not None:
            self.memory.foreseen(name, now_s, start.foreseen_s)
        at = (start.expected_s, start.earliest_s, start.latest_s)
        return ExpectedStart(*(None if each is None else now_s + each for each in at))

    def _without(self, snapshot: Snapshot, users: set[int], kept: set[int]) -> Snapshot:
        """The snapshot without what waits of these users, but for what is kept of it."""
        out = {
            str(row.id)
            for row in self._rows.values()
            if row.uid in users and row.gpus and row.state is WorkState.PENDING
        } - set(map(str, kept))
        return replace(
            snapshot, workloads=tuple(each for each in snapshot.workloads if each.name not in out)
        )

    def _decide(self, snapshot: Snapshot, settings: CycleSettings) -> CyclePlan:
        number = max(len(snapshot.workloads), 1)
        is_other = not self._known_of / MIX_GROWTH <= number <= self._known_of * MIX_GROWTH
        if self._known is None or is_other:
            self._known, self._known_of = typical_work(snapshot.workloads), number
        if self._users_take_turns():
            settings = replace(settings, worth_orders=False)
        return decide(snapshot, self._known, settings, memory=self.memory.memory, kept=self._kept)

    def _users_take_turns(self) -> bool:
        """Whether several users of a machine wait: then turns order their work, and not worth.

        Else one with many short programs would always go before the others.
        """
        first: int | None = None
        for row in self._rows.values():
            if row.turn_s and row.state is WorkState.PENDING:
                if first is not None and row.uid != first:
                    return True
                first = row.uid
        return False

    def _read(
        self,
        machine: MachineView,
        now_s: float,
        carried: Mapping[int, int] = NOTHING,
        host_free_bytes: int = 0,
    ) -> Snapshot:
        if machine != self._machine:
            self._machine, self._nodes = machine, nodes_of(machine)
            models = sorted({card.model for card in machine.cards}), whole_memory_mib(machine)
            if models != self._models:
                self._models = models
                self._workloads = {
                    number: workload_of(row, *models) for number, row in self._rows.items()
                }
        queues = queues_of(stored.projects(self._connection))
        monday_s = monday_of(now_s)
        self.memory.divide(len(machine.cards), (*queues, OUTSIDE_QUEUE), monday_s)
        changed = self._changed()
        for row in changed:
            before = self._rows.get(row.id)
            if row.state is not WorkState.PENDING:
                self._waits.over(str(row.id))
            elif self._read_s is not None and (
                row.submitted_s < self._read_s if before is None else before.state in ACTIVE
            ):
                self._waits.again(str(row.id))
            if row.state in ACTIVE or row.state is WorkState.PENDING:
                self._rows[row.id] = row
                if before is None or _asked_by(before) != _asked_by(row):
                    self._workloads[row.id] = workload_of(row, *self._models)
            else:
                self._rows.pop(row.id, None)
                self._workloads.pop(row.id, None)
        self.memory.learn(changed, self._learned_of, self._rows, now_s, self._change)
        self._users = UserBooks(machine, self._rows.values()) if machine.limits else None
        self._read_s = now_s
        return snapshot_of(
            self._nodes,
            self._rows.values(),
            self._workloads,
            queues,
            now_s,
            monday_s,
            carried,
            host_free_bytes,
            self._users,
            self._waits,
        )

    def _changed(self) -> list[WorkRow]:
        """The rows that have changed since it was asked last; all live ones, the first time."""
        if self._change >= 0:
            changed, self._change = stored.since(self._connection, self._change, compact)
            return changed
        self._connection.execute("BEGIN")  # all of it is read at one moment
        live, self._change = stored.everything_live(self._connection, compact)
        over = stored.ended_since(self._connection, self.memory.change)
        self._connection.execute("COMMIT")
        return live + over

    def _learned_of(self, row: WorkRow) -> Workload:
        """A workload as the memory knows it."""
        found = self._workloads.get(row.id) or workload_of(row, *self._models)
        sizes = [card.memory_mib for card in self._machine.cards] if self._machine else []
        return with_milli(found, min(sizes, default=1))


def _asked_by(row: WorkRow) -> tuple[object, ...]:
    """What of a row a user can change while it waits or runs."""
    return (
        row.gpus, row.gpu_milli, row.gpu_memory_mib, row.gpu_model, row.cpu_milli, row.memory_mib,
        row.priority, row.time_limit_s, row.project,
    )  # fmt: skip
