"""Reads the store as far as it has changed, and asks `moiety.policy`."""

from __future__ import annotations

import sqlite3
from typing import Final

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix, typical_work
from moiety.policy.state.kept_state import KeptState
from moiety.pool.engine.messages import (
    CycleAnswer,
    CycleRequest,
    MachineView,
    ReasonsAnswer,
    ReasonsRequest,
    WaitReason,
)
from moiety.pool.engine.snapshot import (
    PoolNodes,
    nodes_of,
    orders_of,
    reasons_of,
    snapshot_of,
    workload_of,
)
from moiety.pool.model.projects import queues_of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ACTIVE, WorkState
from moiety.pool.store import rows as stored

NO_MOVES: Final = CycleSettings(moves_max=0, reasons=False, scales=False)
"""A program on a machine is not moved to another GPU."""
WITH_REASONS: Final = CycleSettings(moves_max=0, reasons=True, scales=False)
MIX_GROWTH: Final = 2
"""The usual work is found anew when there is this many times as much, or as little."""


class PoolPlanner:
    """Decides for one pool; it keeps what it has read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """The connection only reads."""
        self._connection = connection
        self._change = 0
        self._rows: dict[int, WorkRow] = {}
        self._workloads: dict[int, Workload] = {}
        self._machine: MachineView | None = None
        self._nodes = PoolNodes()
        self._models: list[str] = []
        self._kept = KeptState()
        self._known: WorkloadMix | None = None
        self._known_of = 0
        self._reasons: dict[str, WaitReason] = {}
        self._explained: tuple[int, MachineView | None] = (-1, None)
        """The change and the machine of `_reasons`."""

    def cycle(self, asked: CycleRequest) -> CycleAnswer:
        """What is to be done now."""
        snapshot = self._read(asked.machine, asked.now_s)
        later = [
            row.not_before_s
            for row in self._rows.values()
            if row.state is WorkState.PENDING and row.not_before_s > asked.now_s
        ]
        plan = self._decide(snapshot, NO_MOVES)
        look_s = min([*later, *([] if plan.look_s is None else [plan.look_s])], default=None)
        return orders_of(plan, self._rows, self._nodes, look_s)

    def reasons(self, asked: ReasonsRequest) -> ReasonsAnswer:
        """Why workloads wait: the same decision once more, with all of its reasons."""
        snapshot = self._read(asked.machine, asked.now_s)
        if self._explained != (self._change, asked.machine):
            self._reasons = reasons_of(self._decide(snapshot, WITH_REASONS))
            self._explained = self._change, asked.machine
        found = {number: self._reasons.get(str(number)) for number in asked.numbers}
        return ReasonsAnswer({number: why for number, why in found.items() if why is not None})

    def _decide(self, snapshot: Snapshot, settings: CycleSettings) -> CyclePlan:
        number = max(len(snapshot.workloads), 1)
        is_other = not self._known_of / MIX_GROWTH <= number <= self._known_of * MIX_GROWTH
        if self._known is None or is_other:
            self._known, self._known_of = typical_work(snapshot.workloads), number
        return decide(snapshot, self._known, settings, kept=self._kept)

    def _read(self, machine: MachineView, now_s: float) -> Snapshot:
        if machine != self._machine:
            self._machine, self._nodes = machine, nodes_of(machine)
            models = sorted({card.model for card in machine.cards})
            if models != self._models:
                self._models = models
                self._workloads = {
                    number: workload_of(row, models) for number, row in self._rows.items()
                }
        changed, self._change = stored.since(self._connection, self._change)
        for row in changed:
            if row.state in ACTIVE or row.state is WorkState.PENDING:
                self._rows[row.id] = row
                if row.id not in self._workloads:
                    self._workloads[row.id] = workload_of(row, self._models)
            else:
                self._rows.pop(row.id, None)
                self._workloads.pop(row.id, None)
        queues = queues_of(stored.projects(self._connection))
        return snapshot_of(self._nodes, self._rows.values(), self._workloads, queues, now_s)
