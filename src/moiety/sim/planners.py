"""The policy engine as what decides in a world, and what else may decide there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.cycle import decide
from moiety.policy.memory import Event, PolicyMemory, Submitted, learn
from moiety.policy.model.decisions import CyclePlan
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Workload
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state.kept_state import KeptState
from moiety.sim.engine import SETTINGS
from moiety.sim.planner import Planner
from moiety.sim.queue_baselines import ORDERS, QueuePlanner


class EnginePlanner:
    """The policy engine, with what it learns."""

    name = "default"

    def __init__(self, mix: WorkloadMix, *, has_queues: bool) -> None:
        self.memory = PolicyMemory()
        self._mix = mix
        self._kept = KeptState()
        self._has_queues = has_queues

    def shown(self, workload: Workload) -> Workload:
        """Without queues, their names only tell which jobs are alike."""
        return workload if self._has_queues else replace(workload, queue="default")

    def learn(self, event: Event) -> None:
        """Keep it in the memory."""
        if isinstance(event, Submitted) and not self._has_queues:
            own = event.workload
            event = Submitted(replace(own, queue="default", user=f"{own.queue}\n{own.user}"))
        learn(self.memory, event)

    def next_look_s(self, now_s: float, since_s: float) -> float | None:
        """By what the memory has learned."""
        if self.memory.is_moved(now_s, since_s):
            return None
        return self.memory.look_s(now_s)

    def plan(self, snapshot: Snapshot) -> CyclePlan:
        """The engine's plan."""
        return decide(snapshot, self._mix, SETTINGS, memory=self.memory, kept=self._kept)


NAMES: Final = ("default", *ORDERS)


def planner_of(name: str, mix: WorkloadMix, *, has_queues: bool) -> Planner:
    """A new planner by its name. Raises InvalidValue."""
    if name == "default":
        return EnginePlanner(mix, has_queues=has_queues)
    if name not in ORDERS:
        raise InvalidValue(
            f"the order {name} is only for files of jobs with whole GPUs, without queues",
            f"one of {', '.join(NAMES)}",
        )
    return QueuePlanner(name, mix)
