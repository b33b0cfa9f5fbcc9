"""The progress of a job in a replay: which tasks have a place, and how much work is done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from moiety.policy.model.snapshot import Running, Task
from moiety.sim.cluster_trace import HistoryJob


@dataclass(slots=True, eq=False)
class JobRun:
    """The progress of a job."""

    job: HistoryJob
    tasks: dict[Task, Running] = field(default_factory=dict)
    """Tasks that have a place."""
    done_s: float = 0.0
    """Seconds of work that it had done at `since_s`."""
    lost_s: float = 0.0
    """Seconds of work that it had done and that were lost."""
    since_s: float = 0.0
    """When its work goes on, after a restart; else when `done_s` was counted."""
    rate: float = 0.0
    """Seconds of work in a second: the part of its tasks that run, or 0 if it lacks any."""
    is_disturbed: bool = False
    """True if it pays for a restart at this moment, though it goes on."""
    began_s: float | None = None
    ended_s: float | None = None
    stops: int = 0
    failures: int = 0
    nodes: tuple[str, ...] = ()
    """Where it ran last."""
    epoch: int = 0

    @property
    def name(self) -> str:
        """Of its workload."""
        return self.job.workload.name

    @property
    def received_s(self) -> float:
        """Seconds of work that it has done, also of work that was lost."""
        return self.done_s + self.lost_s

    def settle(self, now_s: float) -> None:
        """Count its work until now."""
        if self.rate and now_s > self.since_s:
            self.done_s += (now_s - self.since_s) * self.rate
            self.since_s = now_s

    def disturb(self, now_s: float, checkpoint_s: float | None = None) -> None:
        """Count a stop, or with `checkpoint_s` a failure: work since the last one is lost."""
        self.settle(now_s)
        self.is_disturbed = True
        if checkpoint_s is None:
            self.stops += 1
            return
        lost_s = self.done_s % checkpoint_s if checkpoint_s else self.done_s
        self.done_s -= lost_s
        self.lost_s += lost_s
        self.failures += 1

    def pace(self) -> float:
        """The rate with the tasks that run now."""
        workload = self.job.workload
        has = Counter(task.subgroup for task in self.tasks)
        if not has or any(has[each.name] < each.tasks_min for each in workload.subgroups):
            return 0.0
        return has.total() / workload.tasks

    def is_on(self, node: str) -> bool:
        """Whether any of its tasks runs on a node."""
        return any(each.spot.node == node for each in self.tasks.values())


@dataclass(slots=True)
class WorldTimeline:
    """As `UsageTimeline`, with parts of GPUs."""

    at_s: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    there: list[int] = field(default_factory=list)
    wanted: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
