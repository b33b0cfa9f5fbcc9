"""Which waiting workloads the engine is asked about now, and why it is not asked about others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from moiety.model.format import format_duration
from moiety.pool.engine.messages import WaitReason
from moiety.pool.model.records import RETRY_MAX_S, WorkRow
from moiety.pool.model.states import ACTIVE, WorkState


@dataclass(slots=True)
class Eligible:
    """What may be tried at one time."""

    now_s: float
    _late: set[int] = field(default_factory=set)
    """Tasks beyond what their array may have at once."""
    _active: Counter[int] = field(default_factory=Counter)
    """By array with a limit: how many tasks have GPUs."""

    @classmethod
    def of(cls, rows: Iterable[WorkRow], now_s: float) -> Eligible:
        """Find out for all rows; tasks of an array are taken in the order of their indices."""
        found = cls(now_s)
        waiting: dict[int, list[WorkRow]] = {}
        for row in rows:
            if not row.array_at_once or row.array_id is None:
                continue
            if row.state in ACTIVE:
                found._active[row.array_id] += 1
            elif row.state is WorkState.PENDING and found._why_alone(row) is None:
                waiting.setdefault(row.array_id, []).append(row)
        for array_id, tasks in waiting.items():
            room = max(tasks[0].array_at_once - found._active[array_id], 0)
            tasks.sort(key=lambda row: row.array_index or 0)
            found._late.update(row.id for row in tasks[room:])
        return found

    def has(self, row: WorkRow) -> bool:
        """Whether this one may be tried."""
        return (
            row.state is WorkState.PENDING
            and self._again_s(row) <= self.now_s
            and row.begin_after_s <= self.now_s
            and not row.blocked
            and row.id not in self._late
        )

    def next_s(self, rows: Iterable[WorkRow]) -> list[float]:
        """The times at which waiting work may be tried."""
        return [
            time_s
            for row in rows
            if row.state is WorkState.PENDING and not row.blocked
            and (time_s := max(self._again_s(row), row.begin_after_s)) > self.now_s
        ]  # fmt: skip

    def why_not(self, row: WorkRow) -> WaitReason | None:
        """Why a waiting workload may not be tried; None: it may."""
        if row.state is not WorkState.PENDING:
            return None
        found = self._why_alone(row)
        if found is None and row.id in self._late:
            has = self._active[row.array_id or 0]
            text = f"its array {row.array_id} has {has} of the {row.array_at_once} tasks at once"
            return WaitReason("array-limit", f"{text} that it may have")
        return found

    def _why_alone(self, row: WorkRow) -> WaitReason | None:
        if row.blocked == "never":
            text = f"what it depends on cannot happen any more: {row.depends}"
            return WaitReason("dependency-never", text, is_final=True)
        if row.blocked:
            return WaitReason("dependency", f"it depends on {row.depends}")
        if row.begin_after_s > self.now_s:
            left = format_duration(row.begin_after_s - self.now_s)
            return WaitReason("begin-time", f"it is to begin later, in {left}")
        if self._again_s(row) > self.now_s:
            left = format_duration(row.not_before_s - self.now_s)
            return WaitReason(
                "back-off", f"{row.reason or 'it failed'}; it is tried again in {left}"
            )
        return None

    def _again_s(self, row: WorkRow) -> float:
        """When work that failed is tried again: at once if the clock was set back since."""
        is_set_back = row.not_before_s > self.now_s + RETRY_MAX_S
        return 0.0 if is_set_back else row.not_before_s
