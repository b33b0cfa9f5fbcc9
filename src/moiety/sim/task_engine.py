"""Single tasks of a folder: the policy engine decides, and the replay carries that out.

Nothing here orders work or chooses places. The engine is told what has changed since it was asked
last, because a folder has thousands of tasks and each of them is a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from moiety.policy.cycle import decide
from moiety.policy.cycle_settings import CycleSettings
from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.decisions import CyclePlan, Placement, Scaling
from moiety.policy.model.snapshot import Running, Snapshot, Spot, Starting
from moiety.policy.model.workloads import Shape, Workload, single
from moiety.policy.place.workload_mix import WorkloadMix
from moiety.policy.state.kept_state import Changes, KeptState

PLACES: Final = CycleSettings(moves_max=0, reservations=0, reasons=False, scales=False)
"""Tasks of a folder are not moved, and the oldest that has room begins."""
SCALES: Final = replace(PLACES, scales=True)


class TaskEngine:
    """What the engine knows of a cluster, and what has changed since it was asked."""

    def __init__(
        self, nodes: Sequence[Node], pools: Sequence[Pool], known: WorkloadMix, seed: int = 0
    ) -> None:
        self._kept = KeptState()
        self._known = known
        self._bare = Snapshot(tuple(nodes), pools=tuple(pools), seed=seed)
        """The cluster without work."""
        self._work: dict[int, Workload] = {}
        self._running: dict[int, Running] = {}
        self._came: dict[int, Workload] = {}
        self._gone: list[str] = []
        self._began: dict[int, Running] = {}
        self._is_new = True
        """Whether the engine has to be told of the whole cluster."""

    def came(self, number: int, shape: Shape, submitted_s: float) -> None:
        """A task waits now; `number` is its own."""
        self._came[number] = self._work[number] = single(f"{number:09}", shape, submitted_s)

    def gone(self, number: int) -> None:
        """A task has ended, or does not wait any longer."""
        name = self._work.pop(number).name
        self._running.pop(number, None)
        self._began.pop(number, None)
        if self._came.pop(number, None) is None:
            self._gone.append(name)

    def nodes_are(self, nodes: Sequence[Node]) -> None:
        """Nodes have come or gone."""
        self._bare = replace(self._bare, nodes=tuple(nodes))
        self._is_new = True

    def begin(self, now_s: float) -> list[tuple[int, Spot]]:
        """The tasks that begin now, by their numbers, and where."""
        if self._is_new:
            plan = decide(self._whole(now_s), self._known, PLACES, kept=self._kept)
        else:
            changes = Changes(
                tuple(self._came.values()), tuple(self._gone), tuple(self._began.values())
            )
            plan = decide(
                self._bare.at(now_s), self._known, PLACES, kept=self._kept, changes=changes
            )
        return self._begin(plan, now_s)

    def _begin(self, plan: CyclePlan, now_s: float) -> list[tuple[int, Spot]]:
        """Note what begins; all that happened before is known to the engine now."""
        self._is_new = False
        self._came.clear()
        self._gone.clear()
        self._began.clear()
        found = []
        for each in plan:
            if isinstance(each, Placement):
                number = int(each.task.workload)
                shape = self._work[number].subgroups[0].shape
                running = Running(each.task, shape, each.spot, now_s)
                self._running[number] = running
                self._began[number] = running
                found.append((number, each.spot))
        return found

    def scale(
        self, now_s: float, starting: Sequence[Starting], empty_since: Mapping[str, float]
    ) -> tuple[list[tuple[int, Spot]], list[Scaling]]:
        """The tasks that begin now, and what dynamic pools should do."""
        snapshot = replace(
            self._whole(now_s), starting=tuple(starting), empty_since=dict(empty_since)
        )
        plan = decide(snapshot, self._known, SCALES, kept=self._kept)
        return self._begin(plan, now_s), [each for each in plan if isinstance(each, Scaling)]

    def _whole(self, now_s: float) -> Snapshot:
        return replace(
            self._bare,
            workloads=tuple(self._work.values()),
            running=tuple(self._running.values()),
            now_s=now_s,
        )
