"""The seam between a world and what decides in it."""

from __future__ import annotations

from typing import Protocol

from moiety.policy.memory import Event
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Workload


class Planner(Protocol):
    """Decides what should happen in a world."""

    name: str

    def shown(self, workload: Workload) -> Workload:
        """A workload as the planner sees it."""

    def learn(self, event: Event) -> None:
        """Hear of something that has happened."""

    def next_look_s(self, now_s: float, since_s: float) -> float | None:
        """When to ask, if only time has passed since the plan of `since_s`; None: now."""

    def plan(self, snapshot: Snapshot) -> CyclePlan:
        """What should happen now."""
